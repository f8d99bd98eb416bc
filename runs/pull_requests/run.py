"""The git integration: a worker inside the control plane that turns approved patches into branches.

It claims runs in PR_CREATING as any worker would, under lease and fence, and may be stopped at any moment:
whoever takes over finds the branch that is there. No transaction is open while git talks to a repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from django.conf import settings

from agentplatform import stopping
from agentplatform.clock import database_now
from runs import auth, leases, service
from runs.domain.commands import CONTROL_PLANE, Command
from runs.domain.contract import heartbeat_seconds
from runs.domain.errors import Refusal
from runs.domain.facts import Json, stamp
from runs.domain.vocabulary import Directive, Ev, FailureCategory, Role
from runs.leases import Claim
from runs.mirrors import GitFailed
from runs.models import Run, RunEvent, WorkerAccount
from runs.pull_requests.approved import Denied, change_of, check_again, load_approved
from runs.pull_requests.base import (
    AlreadyThere,
    BaseConflict,
    BranchTaken,
    PathsDiffer,
    Pushed,
    PushFailed,
    PushRefused,
)
from runs.pull_requests.body import Said, evidence_summary
from runs.pull_requests.heart import Heart
from runs.pull_requests.providers import ProviderUnknown, provider_of
from runs.selectors.policies import effective_policies

log = structlog.get_logger(__name__)

F = FailureCategory
ACCOUNT: Final = "git-integration"
#: While a cancelled run cannot be reconciled because nobody answers, it is looked at again after this.
RECONCILE_AGAIN: Final = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one run: the event that was posted, or the code with which it was refused."""

    run_id: str
    event: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class _Work:
    """One claimed run, and who holds it."""

    principal: auth.Principal
    claim: Claim

    @property
    def run(self) -> Run:
        return self.claim.run

    def command(self, event: Ev, payload: Json, *, key: str = "") -> Command:
        key = key or f"{event}-{self.run.pk}-{self.claim.lease.fence}"
        return Command(event, payload, self.principal.caller, key, lease_token=self.claim.token)


def create_pull_requests(limit: int = 20) -> list[Done]:
    """Bring out the approved patches that wait, one after the other, at most ``limit``.

    Several processes may do it at once; repeating it makes no second branch. A process that is asked to end
    finishes the one in hand.
    """
    principal = auth.of_worker(integration_account())
    done: list[Done] = []
    while len(done) < limit and not stopping.is_asked():
        claim = leases.lease_claim(principal=principal)
        if claim is None:
            break
        done.append(_settle(_Work(principal, claim)))
    return done


def integration_account() -> WorkerAccount:
    """The built-in account; it has no token, so nobody outside can act as it."""
    found = WorkerAccount.objects.filter(name=ACCOUNT).first()
    return found or service.worker_create(name=ACCOUNT, roles=[Role.GIT_INTEGRATION.value])


def _settle(work: _Work) -> Done:
    """What git and the provider say becomes the run's event."""
    where = work.run.repository_id
    policy = effective_policies(repository_ids=[where])[where]
    with Heart(
        work.principal, work.claim, interval_seconds=heartbeat_seconds(work.run.task.contract, policy.values)
    ):
        try:
            cancelled = work.claim.state.directive == Directive.CANCEL
            command = _reconcile(work) if cancelled else _held(work) or _create(work)
        except Exception as error:
            log.exception("pull_request_failed", run_id=work.run.pk)
            why = f"{type(error).__name__}: {error}"
            failure = _failure(F.INFRASTRUCTURE, "unexpected", why)
            command = work.command(Ev.PR_CREATION_FAILED, {"failure": failure})
    try:
        service.apply_event(work.run.pk, command)
    except Refusal as refusal:
        # The lease went, or somebody cancelled meanwhile: the next claim finds what was pushed.
        log.warning("pull_request_refused", run_id=work.run.pk, code=refusal.code)
        return Done(work.run.pk, refused=refusal.code)
    return Done(work.run.pk, command.event.value)


def _held(work: _Work) -> Command | None:
    """A hold that was set since the claim: nothing is pushed, and the run waits for its end."""
    hold = service.hold_over(work.run)
    if hold is None:
        return None
    reason = hold.sentence(now=stamp(database_now()))
    return Command(Ev.LEASE_RELEASED, {"reason": reason}, CONTROL_PLANE, key="")


def _create(work: _Work) -> Command:
    run, state = work.run, work.claim.state
    try:
        approved = load_approved(run, state)
        provider = provider_of(run.repository)
        change = change_of(run, state, approved, body=_body(work))
        try:
            check_again(run, state, approved)
        except Denied:
            # It may have gone out under an earlier lease, when it still held; then that is what there is.
            if found := provider.find(change):
                return _created(work, found)
            raise
        pushed = provider.create(change)
    except PushFailed as refused:
        return _push_failed(work, refused)
    except GitFailed as error:
        failure = _failure(F.INFRASTRUCTURE, "repository_unreachable", error.message)
        return work.command(Ev.PR_CREATION_FAILED, {"failure": failure})
    except ProviderUnknown as error:
        failure = _failure(F.PR_CREATION_FAILED, "provider_unknown", str(error), final=True)
        return work.command(Ev.NON_RETRYABLE_FAILURE, {"failure": failure})
    except (PushRefused, Denied) as refused:
        return work.command(Ev.NON_RETRYABLE_FAILURE, {"failure": _final(refused)})
    return _created(work, pushed)


def _reconcile(work: _Work) -> Command:
    """Somebody cancelled after the first lease: what stands at the provider decides (section 9)."""
    run, state = work.run, work.claim.state
    try:
        provider = provider_of(run.repository)
        change = change_of(run, state, load_approved(run, state))
        if not (found := provider.find(change)):
            provider.withdraw(change)
    except (PushFailed, GitFailed) as error:
        log.warning("reconcile_failed", run_id=run.pk, why=str(error))
        again = stamp(database_now() + RECONCILE_AGAIN)
        reason = f"The provider did not answer: {error}"[:2_000]
        facts = {"not_before": again}
        return Command(Ev.LEASE_RELEASED, {"reason": reason}, CONTROL_PLANE, key="", facts=facts)
    except Denied as error:
        note = f"Whether a pull request of this run stands at the provider cannot be told: {error}"
        return work.command(Ev.RUN_CANCELLED, {"cleanup": "unknown", "note": note[:2_000]})
    except (PushRefused, ProviderUnknown):
        found = None  # whatever stands there is not this run's
    if found:
        return _created(work, found)
    note = "No pull request of this run stands at the provider."
    return work.command(Ev.RUN_CANCELLED, {"cleanup": "done", "note": note})


def _created(work: _Work, pushed: Pushed) -> Command:
    payload: Json = {
        "provider": work.run.repository.provider,
        "url": pushed.url,
        "branch": pushed.branch,
        "commit_sha": pushed.commit_sha,
        "tree_sha": pushed.tree_sha,
        "body": _body(work),
    }
    if pushed.number is not None:
        payload["number"] = pushed.number
    # One key per run, whatever the lease: an answer that got lost is got again, never made twice.
    return work.command(Ev.PR_CREATED, payload, key=f"pr-created-{work.run.pk}")


def _body(work: _Work) -> str:
    link = f"{settings.PUBLIC_URL}/runs/{work.run.pk}/" if settings.PUBLIC_URL else ""
    contract = work.run.task.contract
    return evidence_summary(work.claim.state, contract, link=link, decisions=_decisions(work.run))


def _decisions(run: Run) -> list[Said]:
    words = {Ev.APPROVED.value: "approved", Ev.VOTE_RECORDED.value: "voted", Ev.GUARD_WAIVED.value: "waived"}
    rows = RunEvent.objects.filter(run=run, event_type__in=words).order_by("sequence")
    return [
        Said(
            by=row.actor_name,
            did=f"{words[row.event_type]} {row.payload.get('guard', '')}".strip(),
            comment=row.payload.get("comment") or row.payload.get("reason") or "",
            at=row.recorded_at,
        )
        for row in rows
    ]


# --- failures -------------------------------------------------------------------------------------


def _failure(category: FailureCategory, reason: str, summary: str, *, final: bool = False) -> Json:
    failure: Json = {"category": category.value, "reason": reason, "summary": (summary or reason)[:2_000]}
    return {**failure, "retryable": False} if final else failure


def _push_failed(work: _Work, refused: PushFailed) -> Command:
    """Said no for good, or to be tried again: renewed access and a repaired network both help then."""
    if refused.cause == "rejected":
        failure = _failure(F.PR_CREATION_FAILED, refused.reason, str(refused), final=True)
        return work.command(Ev.NON_RETRYABLE_FAILURE, {"failure": failure})
    category = F.REPOSITORY_ACCESS if refused.cause == "access" else F.INFRASTRUCTURE
    failure = _failure(category, refused.reason, str(refused))
    return work.command(Ev.PR_CREATION_FAILED, {"failure": failure})


#: What to do comes first: pages cut a long summary.
_MOVED: Final = "The base moved into conflict. What helps is a new run: it starts from today's base."

_CATEGORIES: Final[Mapping[type[Exception], FailureCategory]] = {
    PathsDiffer: F.POLICY_DENIED,
    AlreadyThere: F.JUDGE_REJECTED,
    BaseConflict: F.PR_CREATION_FAILED,
    BranchTaken: F.PR_CREATION_FAILED,
}


def _final(refused: PushRefused | Denied) -> Json:
    category = refused.category if isinstance(refused, Denied) else _CATEGORIES[type(refused)]
    # A base that moved can be met by a new run from where it is now; repeating nothing else would help.
    moved = isinstance(refused, BaseConflict)
    summary = f"{_MOVED} The patch {refused}." if moved else str(refused)
    return _failure(category, refused.reason, summary, final=not moved)
