"""The narrow row of a run that ended: time by status, repairs, why it failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from runs.domain.outcomes import Move, outcome_columns, spent, verdicts
from runs.domain.state import RunState
from runs.domain.vocabulary import Ev, RunStatus

BEGIN = datetime(2026, 10, 25, 0, 50, tzinfo=UTC)
S = RunStatus


def move(minutes: int, event: str, before: str, after: str) -> Move:
    return Move(event, before, after, BEGIN + timedelta(minutes=minutes))


REPAIRED = [
    move(0, Ev.RUN_CREATED, "", S.CREATED),
    move(0, Ev.RUN_ENQUEUED, S.CREATED, S.QUEUED),
    move(5, Ev.LEASE_ACQUIRED, S.QUEUED, S.LEASED),
    move(6, Ev.VERIFICATION_STARTED, S.LEASED, S.VERIFYING),
    move(9, Ev.VERIFICATION_FAILED_RETRYABLE, S.VERIFYING, S.EXECUTING),
    move(12, Ev.NOTE_ADDED, S.EXECUTING, S.EXECUTING),
    move(20, Ev.VERIFICATION_STARTED, S.EXECUTING, S.VERIFYING),
    move(21, Ev.VERIFICATION_PASSED, S.VERIFYING, S.JUDGING),
    move(22, Ev.NON_RETRYABLE_FAILURE, S.JUDGING, S.FAILED),
]


def ended(**fields: object) -> RunState:
    at = "2026-10-25T00:50:00.000000Z"
    return RunState(repository_id="repo_1", created_at=at, completed_at=at, **fields)  # type: ignore[arg-type]


def test_visits_of_a_status_add_up_and_the_end_is_not_left():
    assert spent(REPAIRED) == {
        S.CREATED: 0,
        S.QUEUED: 300,
        S.LEASED: 60,
        S.VERIFYING: 240,
        S.EXECUTING: 660,
        S.JUDGING: 60,
    }


def test_durations_are_counted_in_utc_over_the_hour_that_clocks_repeat():
    before, after = datetime(2026, 10, 25, 0, 50, tzinfo=UTC), datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    moves = [Move("run_created", "", S.CREATED, before), Move("run_cancelled", S.CREATED, S.CANCELLED, after)]
    assert spent(moves) == {S.CREATED: 20 * 60}


def test_repairs_are_counted_by_who_asked_and_unknown_where_nobody_looked():
    row = outcome_columns(ended(status=S.FAILED), REPAIRED, {"agent": {"kind": "script"}})
    assert (row["verifier_repairs"], row["judge_repairs"]) == (1, None)


@pytest.mark.parametrize(
    ("fields", "category"),
    [
        ({"status": S.FAILED, "failure": {"category": "TOOL_FAILED"}}, "TOOL_FAILED"),
        ({"status": S.EXPIRED, "expiration": {"scope": "lease", "reason": "lost"}}, "EXPIRED"),
        ({"status": S.SUCCEEDED}, ""),
    ],
)
def test_the_row_says_why_it_failed(fields, category):
    row = outcome_columns(ended(**fields), [], {"agent": {"kind": "script"}})
    assert row["failure_category"] == category


def told(minutes: int, event: str, *, confidence: str | None = None, gate: str | None = None) -> Move:
    return Move(event, S.JUDGING, S.JUDGING, BEGIN + timedelta(minutes=minutes), confidence, gate)


PATCH, JUDGED = told(0, Ev.PATCH_CREATED), told(1, Ev.JUDGE_PASSED, confidence="0.93")
ASKED = told(2, Ev.HUMAN_APPROVAL_REQUIRED, gate="patch")


@pytest.mark.parametrize(
    ("moves", "found"),
    [
        ([PATCH, JUDGED, told(2, Ev.AUTO_PR_ALLOWED)], [("alone", 0.93, None)]),
        ([PATCH, JUDGED, ASKED, told(12, Ev.APPROVED)], [("approved", 0.93, 600)]),
        ([PATCH, JUDGED, ASKED, told(12, Ev.REJECTED)], [("rejected", 0.93, 600)]),
        (
            [PATCH, JUDGED, ASKED, told(3, Ev.CHANGES_REQUESTED), PATCH, JUDGED, told(9, Ev.AUTO_PR_ALLOWED)],
            [("changes_requested", 0.93, 60), ("alone", 0.93, None)],
        ),
        # A plan says nothing of the judge, nor does a patch that no judge passed.
        ([told(0, Ev.HUMAN_APPROVAL_REQUIRED, gate="plan"), told(1, Ev.APPROVED), PATCH, JUDGED], []),
        ([PATCH, JUDGED, PATCH, ASKED, told(12, Ev.REJECTED)], []),
        ([PATCH, JUDGED, ASKED], []),
    ],
)
def test_a_verdict_is_what_became_of_a_patch_that_the_judge_passed(moves, found):
    assert [(v["verdict"], v["confidence"], v["seconds"]) for v in verdicts(moves)] == found
