"""A log has an end, and the run in it always has a way out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentplatform.clock import clock_turned_to, database_now
from approvals.models import ApprovalRequest
from approvals.service import approval_decide
from runs import auth, service, timeouts
from runs.domain import log_limits
from runs.domain.errors import DirectivePending, HistoryLimit
from runs.domain.facts import canonical
from runs.domain.log_limits import LogLimits
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, RunStatus, StepState
from tests import factories

pytestmark = pytest.mark.django_db

S = RunStatus
FAILURE = {"category": "TOOL_FAILED", "reason": "broken", "summary": "It broke."}


@pytest.fixture(params=["events", "size"])
def full(request, settings, monkeypatch):
    """A run whose last event filled its log, by their number or by their bytes, with a call under way."""
    holder = factories.run_in(S.EXECUTING)
    holder.post(Ev.TOOL_REQUESTED, operation_id="a", tool="shell", arguments={}, label="build")
    if request.param == "events":
        settings.RUN_MAX_EVENTS = holder.run.version + 1
    else:
        settings.RUN_MAX_LOG_BYTES = holder.state.log_bytes + 1
    monkeypatch.setattr(log_limits, "RESERVE", 4)
    holder.post(Ev.MODEL_DECISION, decision="tool", cost_usd="0.10")
    return holder


def note(holder: factories.Holder) -> None:
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_note(run_id=holder.run_id, text="Why so long?", by=by)


def test_the_event_that_fills_the_log_winds_the_run_down(full):
    state = full.state
    assert state.directive == "wind_down"
    assert "log is full" in state.directive_info["reason"]
    asked = full.run.events.get(event_type="wind_down_requested")
    assert asked.actor_type == "policy"
    with pytest.raises(DirectivePending):
        full.post(Ev.TOOL_REQUESTED, operation_id="b", tool="shell", arguments={}, label="more")


def test_a_full_log_takes_no_remarks_and_says_why(full):
    before = full.run.version
    with pytest.raises(HistoryLimit) as refused:
        note(full)
    extra = refused.value.extra
    by_number, by_bytes = (
        extra[a] >= extra[b] for a, b in (("sequence", "limit_events"), ("log_bytes", "limit_bytes"))
    )
    assert by_number or by_bytes
    assert full.run.version == before


def test_what_is_under_way_may_still_be_reported_but_not_for_ever(full, settings):
    full.post(Ev.TOOL_COMPLETED, operation_id="a", outcome="succeeded", cost_usd="0.20")
    full.post(Ev.MODEL_DECISION, decision="final", cost_usd="0.30")
    assert full.run.steps.get(operation_id="a").state == StepState.SUCCEEDED
    limits = LogLimits(settings.RUN_MAX_EVENTS, settings.RUN_MAX_LOG_BYTES)
    while not log_limits.is_full(full.state, limits, reserve=log_limits.RESERVE):
        full.post(Ev.MODEL_DECISION, decision="tool", summary="x" * 1_000)
    with pytest.raises(HistoryLimit):
        full.post(Ev.MODEL_DECISION, decision="tool")


def test_a_full_run_can_be_finished(full):
    full.post(Ev.TOOL_COMPLETED, operation_id="a", outcome="succeeded")
    factories.drive(full, S.WAITING_FOR_APPROVAL)
    assert full.run.gate == "patch"
    bob = auth.of_person(factories.person(PersonRole.REVIEWER))
    request = ApprovalRequest.objects.get(run_id=full.run_id)
    approval_decide(
        approval_id=request.pk, decision="approve", by=bob, comment="",
        version=request.version, subject_sha256=request.subject_sha256,
    )  # fmt: skip
    factories.drive(full, S.SUCCEEDED)


def test_a_full_runs_attempt_can_fail(full):
    full.post(Ev.ATTEMPT_FINISHED, outcome="failed", failure=FAILURE)
    assert full.run.status == S.CANCELLED  # nothing to hand in: a wind-down ends so


def test_a_full_run_can_be_failed_for_good(full):
    full.post(Ev.NON_RETRYABLE_FAILURE, failure=FAILURE)
    assert full.run.status == S.FAILED


def test_a_full_run_that_was_cancelled_and_left_alone_is_cancelled_by_the_sweep(full):
    cancel(full)
    with clock_turned_to(database_now() + timedelta(seconds=61)):
        timeouts.sweep()
    assert full.run.status == S.CANCELLED


def cancel(holder: factories.Holder) -> None:
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=holder.run_id, event=Ev.CANCEL_REQUESTED, reason="enough", by=by)


def test_a_full_run_can_be_cancelled(full):
    cancel(full)
    full.upload(ArtifactKind.LOG, b"partial")
    full.post(Ev.RUN_CANCELLED, cleanup="done")
    assert full.run.status == S.CANCELLED


def test_payloads_and_what_is_recorded_beside_them_fill_a_log_as_events_do(settings):
    holder = factories.run_in(S.EXECUTING)
    settings.RUN_MAX_LOG_BYTES = holder.state.log_bytes + 1_000
    holder.post(Ev.MODEL_DECISION, decision="tool", summary="x" * 400)
    assert holder.state.directive == "continue"
    holder.post(Ev.MODEL_DECISION, decision="tool", summary="x" * 700)
    assert holder.state.directive == "wind_down"


def test_what_the_control_plane_records_beside_a_payload_counts():
    before = factories.run_in(S.JUDGING)
    payloads = sum(len(canonical(event.payload)) for event in before.run.events.all())
    facts = sum(len(canonical(event.facts)) for event in before.run.events.all())
    assert before.state.log_bytes == payloads + facts
    assert facts > payloads, "the reading of a patch, and its guards, outweigh what was said"
