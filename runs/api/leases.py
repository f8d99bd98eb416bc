"""Claim, heartbeat, release."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agentplatform import measures, tracing
from agentplatform.clock import rfc3339
from runs import leases, outbox
from runs.api import shapes
from runs.api.base import ApiView
from runs.api.requests import MAX_WAIT_SECONDS, Fields, idempotency_key, json_object
from runs.api.resume import policy_of, resume
from runs.api.schema import says
from runs.api.waiting import COME_BACK_SECONDS, Found, wait_for
from runs.auth import Principal, require_machine, require_run
from runs.domain.contract import heartbeat_seconds
from runs.domain.errors import Invalid
from runs.domain.facts import Json, moment
from runs.domain.policy import ISOLATION
from runs.domain.vocabulary import MACHINE_ROLES
from runs.selectors import Surroundings


class Leases(ApiView):
    """``POST leases``"""

    @says(answer="Claim", status=201, also=(200, 204), body="ClaimBody", headers=("Idempotency-Key",))
    def post(self, request: Request) -> Response:
        """Give the next run to this worker; 204 when there is nothing to do."""
        require_machine(self.principal)
        asked, key = _asked(json_object(request)), idempotency_key(request)
        found = wait_for(
            lambda: leases.lease_claim(
                principal=self.principal,
                roles=asked["roles"],
                labels=asked["labels"],
                key=key,
                isolation=asked["isolation"],
                version=asked["worker_version"],
            ),
            seconds=asked["wait_seconds"],
            begin=lambda: leases.begin_waiting(principal=self.principal, roles=asked["roles"]),
        )
        _count(found)
        if (claim := found.answer) is None:
            return Response(
                status=204, headers={"Retry-After": str(COME_BACK_SECONDS)} if found.crowded else None
            )
        answer = Response(_claimed(claim, self.principal), status=200 if claim.replayed else 201)
        if claim.replayed:
            answer["Idempotency-Replayed"] = "true"
        if tracing.is_on() and (carried := outbox.trace_of(claim.run.pk)):
            answer["traceparent"] = carried
        return answer


def _count(found: Found[leases.Claim | None]) -> None:
    claim = found.answer
    if claim is None:
        measures.CLAIMS.labels("crowded" if found.crowded else "nothing").inc()
        return
    measures.CLAIMS.labels("replayed" if claim.replayed else "claimed").inc()
    if not claim.replayed:
        since = moment(max(claim.state.idle_since, claim.state.not_before))
        measures.CLAIM_WAIT_SECONDS.observe(max((claim.lease.acquired_at - since).total_seconds(), 0.0))


def _asked(body: Json) -> dict[str, Any]:
    fields = Fields(body)
    asked: dict[str, Any] = {
        "roles": fields.texts("roles"),
        "labels": fields.texts("labels"),
        "wait_seconds": fields.integer("wait_seconds", 0, MAX_WAIT_SECONDS, default=0),
        "isolation": fields.choice("isolation", ISOLATION) if body.get("isolation") is not None else "",
        "worker_version": fields.text("worker_version", limit=100),
    }
    fields.done()
    if unknown := [role for role in asked["roles"] if role not in list(MACHINE_ROLES)]:
        raise Invalid({"roles": [f"has no role {unknown[0][:50]!a}; known are {', '.join(MACHINE_ROLES)}"]})
    return asked


def _claimed(claim: leases.Claim, principal: Principal) -> Json:
    """The whole answer at the price of two queries: repository and policy."""
    policy = policy_of(claim.run)
    seconds = heartbeat_seconds(claim.run.task.contract, policy)
    around = Surroundings(now=claim.lease.acquired_at)
    return {
        "lease": shapes.lease(claim.lease, claim.token, heartbeat_interval_seconds=seconds),
        "run": shapes.run(claim.run, claim.lease, principal=principal, around=around),
        "resume": resume(claim.run, claim.state, policy),
    }


class Heartbeat(ApiView):
    """``POST runs/{id}/heartbeat``"""

    @says(answer="Heartbeat", body="NothingBody", headers=("Lease-Token!",))
    def post(self, request: Request, run_id: str) -> Response:
        """Renew the lease and hear what the run's people want."""
        require_run(self.principal, run_id)
        require_machine(self.principal)
        json_object(request)
        beat = leases.lease_heartbeat(principal=self.principal, run_id=run_id, token=self.lease_token)
        return Response(
            {
                "expires_at": rfc3339(beat.expires_at),
                "directive": beat.directive,
                "reason": beat.reason or None,
            }
        )


class Release(ApiView):
    """``POST runs/{id}/release``"""

    @says(answer="Released", body="ReasonBody", headers=("Lease-Token!", "Idempotency-Key"))
    def post(self, request: Request, run_id: str) -> Response:
        """Give the lease up at a boundary; somebody else goes on."""
        require_run(self.principal, run_id)
        require_machine(self.principal)
        fields = Fields(json_object(request))
        reason = fields.text("reason")
        fields.done()
        made = leases.lease_release(
            principal=self.principal, run_id=run_id, token=self.lease_token, reason=reason,
            key=idempotency_key(request),
        )  # fmt: skip
        return Response({"run": shapes.run_now(made, self.principal), **shapes.result(made)})
