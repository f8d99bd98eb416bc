"""A log has an end, and the run in it always has a way out."""

from __future__ import annotations

import pytest

from runs import auth, service
from runs.domain import log_limits
from runs.domain.errors import DirectivePending, HistoryLimit
from runs.domain.log_limits import LogLimits
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, RunStatus, StepState
from tests import factories

pytestmark = pytest.mark.django_db

S = RunStatus
FAILURE = {"category": "TOOL_FAILED", "reason": "broken", "summary": "It broke."}


@pytest.fixture
def full(settings, monkeypatch):
    """A run whose last event filled its log, with a call under way."""
    holder = factories.run_in(S.EXECUTING)
    holder.post(Ev.TOOL_REQUESTED, operation_id="a", tool="shell", arguments={}, label="build")
    settings.RUN_MAX_EVENTS = holder.run.version + 1
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
    assert refused.value.extra["sequence"] >= refused.value.extra["limit_events"]
    assert full.run.version == before


def test_what_is_under_way_may_still_be_reported_but_not_for_ever(full, settings):
    full.post(Ev.TOOL_COMPLETED, operation_id="a", outcome="succeeded", cost_usd="0.20")
    full.post(Ev.MODEL_DECISION, decision="final", cost_usd="0.30")
    assert full.run.steps.get(operation_id="a").state == StepState.SUCCEEDED
    while not log_limits.is_full(full.state, LogLimits(settings.RUN_MAX_EVENTS), reserve=log_limits.RESERVE):
        full.post(Ev.MODEL_DECISION, decision="tool")
    with pytest.raises(HistoryLimit):
        full.post(Ev.MODEL_DECISION, decision="tool")


def test_a_full_run_can_be_finished(full):
    full.post(Ev.TOOL_COMPLETED, operation_id="a", outcome="succeeded")
    factories.drive(full, S.WAITING_FOR_APPROVAL)
    assert full.run.gate == "patch"


def test_a_full_run_can_be_failed(full):
    full.post(Ev.ATTEMPT_FINISHED, outcome="failed", failure=FAILURE)
    assert full.run.status == S.CANCELLED  # nothing to hand in: a wind-down ends so
    other = factories.run_in(S.EXECUTING)
    other.post(Ev.NON_RETRYABLE_FAILURE, failure=FAILURE)
    assert other.run.status == S.FAILED


def test_a_full_run_can_be_cancelled(full):
    by = auth.of_person(factories.person(PersonRole.OPERATOR)).caller
    service.run_direct(run_id=full.run_id, event=Ev.CANCEL_REQUESTED, reason="enough", by=by)
    full.upload(ArtifactKind.LOG, b"partial")
    full.post(Ev.RUN_CANCELLED, cleanup="done")
    assert full.run.status == S.CANCELLED


def test_payloads_fill_a_log_as_events_do(settings):
    holder = factories.run_in(S.EXECUTING)
    settings.RUN_MAX_LOG_BYTES = holder.state.log_bytes + 1_000
    holder.post(Ev.MODEL_DECISION, decision="tool", summary="x" * 400)
    assert holder.state.directive == "continue"
    holder.post(Ev.MODEL_DECISION, decision="tool", summary="x" * 700)
    assert holder.state.directive == "wind_down"
