"""One display state for every standing, in the contract's order, and actions that the service takes."""

from __future__ import annotations

from itertools import product

import pytest

from runs.auth import Action
from runs.domain.actions import ACTIONS, possible_actions
from runs.domain.display import (
    BACKOFF,
    CAP,
    HOLD,
    SPEND,
    TABLE,
    Around,
    Display,
    Standing,
    Stop,
    display_state,
    missing,
    standing_of_run,
    standing_of_task,
    step_label,
    waits_for,
)
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.domain.times import clock, spell
from runs.domain.vocabulary import CLAIMABLE, Directive, Gate, RunStatus, TaskStatus
from runs.domain.waiting import REASONS, waiting_for

NOW = "2026-07-03T10:06:00.000000Z"
LATER = "2026-07-03T12:00:00.000000Z"
FRESH = "2026-07-03T10:05:00.000000Z"
AROUND = Around(NOW, dict.fromkeys(("worker", "agent_runtime", "verifier", "judge"), NOW), fresh_after=FRESH)
HOLDER = {"worker_id": "wrk_1", "worker_name": "eu-3", "since": "2026-07-03T10:02:00.000000Z"}


def run(status: RunStatus, **more: object) -> RunState:
    state = RunState(
        id="run_1",
        status=status.value,
        updated_at=NOW,
        idle_since=NOW,
        repository_id="repo_1",
        worker_name="eu-3",
    )
    for name, value in more.items():
        setattr(state, name, value)
    return state


def gate(kind: Gate, **more: object) -> dict[str, object]:
    opened = {"gate": kind.value, "approval_id": "apr_1", "opened_at": "2026-07-03T09:24:00.000000Z"}
    return {**opened, "due_at": "2026-07-06T09:24:00.000000Z", "needed": 1, **more}


def task(status: TaskStatus = TaskStatus.RUNNING, **more: object) -> TaskState:
    state = TaskState(id="task_1", status=status.value, latest_run_id="run_1", updated_at=NOW)
    for name, value in more.items():
        setattr(state, name, value)
    return state


def shown(state: RunState, told: TaskState | None = None, around: Around = AROUND) -> Display:
    return display_state(standing_of_run(state, told or task(), around))


def test_every_standing_has_exactly_one_state():
    columns = product(
        [s.value for s in TaskStatus],
        [False],
        ["", *(s.value for s in RunStatus)],
        [d.value for d in Directive],
        [False, True],
        ["", Gate.PATCH.value, Gate.BUDGET.value],  # one of each kind: what is reviewed, what blocks
        ["", "access_to_renew"],
        [False, True],
        ["", BACKOFF],
    )
    seen = {display_state(Standing(*values)) for values in columns}
    rest = (Directive.CONTINUE.value, False, "", "", False, "")
    seen.add(display_state(Standing(TaskStatus.COMPLETED.value, True, "", *rest)))
    assert seen == set(Display)


def test_the_table_runs_from_the_bottom_of_the_contract_to_its_top():
    assert [row.state for row in TABLE] == list(reversed(Display))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (RunStatus.CREATED, Display.QUEUED),
        (RunStatus.QUEUED, Display.QUEUED),
        (RunStatus.LEASED, Display.STARTING),
        (RunStatus.PREPARING, Display.STARTING),
        (RunStatus.CONTEXT_BUILDING, Display.STARTING),
        (RunStatus.PLANNING, Display.THINKING),
        (RunStatus.EXECUTING, Display.RUNNING),
        (RunStatus.PATCH_READY, Display.RUNNING),
        (RunStatus.VERIFYING, Display.RUNNING),
        (RunStatus.JUDGING, Display.RUNNING),
        (RunStatus.PR_CREATING, Display.RUNNING),
        (RunStatus.PR_CREATED, Display.RUNNING),
        (RunStatus.SUCCEEDED, Display.COMPLETED),
        (RunStatus.FAILED, Display.FAILED),
        (RunStatus.EXPIRED, Display.FAILED),
        (RunStatus.CANCELLED, Display.CANCELLED),
    ],
)
def test_each_status_has_its_state(status: RunStatus, expected: Display):
    assert shown(run(status, holder=HOLDER)) is expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Gate.PLAN, Display.NEEDS_REVIEW),
        (Gate.PATCH, Display.NEEDS_REVIEW),
        (Gate.TOOL_CALL, Display.NEEDS_REVIEW),
        (Gate.BUDGET, Display.BLOCKED),
        (Gate.QUESTION, Display.BLOCKED),
    ],
)
def test_a_gate_is_a_review_or_a_block(kind: Gate, expected: Display):
    assert shown(run(RunStatus.WAITING_FOR_APPROVAL, gate=gate(kind))) is expected


def test_a_review_that_nobody_may_decide_is_blocked_and_says_so():
    state = run(RunStatus.WAITING_FOR_APPROVAL, gate=gate(Gate.PATCH))
    around = Around(NOW, undecidable=True)
    assert shown(state, around=around) is Display.BLOCKED
    wait = waiting_for(state, task(), around)
    assert wait is not None
    assert "Nobody is left" in wait.sentence


def test_directives_show_as_soon_as_they_hold():
    working = run(RunStatus.EXECUTING, holder=HOLDER, directive=Directive.PAUSE.value)
    assert shown(working) is Display.RUNNING
    assert shown(run(RunStatus.EXECUTING, directive=Directive.PAUSE.value)) is Display.PAUSED
    assert shown(run(RunStatus.EXECUTING, holder=HOLDER, directive="cancel")) is Display.CANCELLING
    assert shown(run(RunStatus.EXECUTING, holder=HOLDER, directive="wind_down")) is Display.CANCELLING
    assert shown(run(RunStatus.CANCELLED, directive="cancel")) is Display.CANCELLED


def test_a_run_of_an_archived_task_is_archived():
    assert shown(run(RunStatus.SUCCEEDED), task(TaskStatus.COMPLETED, archived_at=NOW)) is Display.ARCHIVED


def test_a_backoff_waits_and_says_until_when():
    state = run(RunStatus.QUEUED, not_before="2026-07-03T10:07:10.000000Z")
    assert shown(state) is Display.WAITING
    wait = waiting_for(state, task(), AROUND)
    assert wait is not None
    assert (wait.reason, wait.until) == (BACKOFF, state.not_before)
    assert wait.sentence == "Tries again in 70 s, after a pause."


def test_a_fresh_run_is_queued_and_an_old_one_without_workers_waits():
    nobody = Around(NOW, {"verifier": "2026-07-03T10:02:00.000000Z"}, fresh_after=FRESH)
    assert shown(run(RunStatus.QUEUED), around=nobody) is Display.QUEUED
    old = run(RunStatus.PATCH_READY, idle_since="2026-07-03T10:02:00.000000Z")
    assert shown(old, around=nobody) is Display.WAITING
    wait = waiting_for(old, task(), nobody)
    assert wait is not None
    assert wait.sentence == "Waiting 4 min for a worker with role verifier: none has asked since 10:02 UTC."
    assert wait.whose_move == "verifier"


def test_what_no_worker_offers_is_named_with_the_way_out():
    lacks = {"worker": "No worker offers gpu: start one with --label gpu, or ask again without it."}
    wait = waiting_for(
        run(RunStatus.QUEUED, idle_since="2026-07-03T10:02:00.000000Z"),
        task(),
        Around(NOW, lacks=lacks, fresh_after=FRESH),
    )
    assert wait is not None
    assert (wait.reason, wait.whose_move) == ("no_worker", "operator")
    assert wait.sentence == f"Waiting 4 min. {lacks['worker']}"


def test_a_hold_and_a_full_repository_are_named():
    held = Around(NOW, hold=Stop("Everything is held by carol.", NOW, LATER))
    spent = Around(NOW, spend=Stop("The cap is reached.", "", LATER))
    full = Around(NOW, cap=2)
    state = run(RunStatus.QUEUED)
    assert [waits_for(state, around) for around in (held, spent, full)] == [HOLD, SPEND, CAP]
    wait = waiting_for(state, task(), held)
    assert wait is not None
    assert wait == (HOLD, NOW, LATER, "operator", "Everything is held by carol.")
    assert waiting_for(state, task(), spent) == (SPEND, NOW, LATER, "control_plane", "The cap is reached.")
    assert "limit of 2 runs" in waiting_for(state, task(), full).sentence  # type: ignore[union-attr]


def test_a_pull_request_is_opened_whatever_was_spent():
    spent = Around(NOW, spend=Stop("The cap is reached.", "", LATER))
    assert waits_for(run(RunStatus.PR_CREATING), spent) == ""


def test_a_remark_does_not_make_anybody_wait_anew():
    state = run(RunStatus.QUEUED, idle_since="2026-07-03T09:02:00.000000Z", updated_at=NOW)
    assert waiting_for(state, task(), AROUND).since == state.idle_since  # type: ignore[union-attr]


def test_an_older_run_does_not_wait_for_what_its_task_waits_for():
    told = task(TaskStatus.WAITING_FOR_APPROVAL, latest_run_id="run_2", blocked={"rule": "x", "reason": "y"})
    assert waiting_for(run(RunStatus.FAILED), told, AROUND) is None


def test_a_held_run_is_worked_on_not_waiting():
    assert waits_for(run(RunStatus.EXECUTING, holder=HOLDER), Around(NOW, cap=1)) == ""


def test_a_task_left_to_a_person_is_blocked_while_its_run_is_failed():
    blocked = {"rule": "access_to_renew", "reason": "The repository could not be reached."}
    told = task(TaskStatus.WAITING_FOR_APPROVAL, blocked=blocked)
    failed = run(RunStatus.FAILED)
    standing = standing_of_task(told, failed, AROUND)
    assert display_state(standing) is Display.BLOCKED
    assert missing(Display.BLOCKED, standing, failed, told) == blocked["reason"]
    assert [row.name for row in possible_actions(Display.BLOCKED, standing)] == [
        "access_renewed",
        "retry",
        "cancel",
    ]
    assert shown(failed, told) is Display.FAILED
    on_run = [row.name for row in possible_actions(Display.FAILED, standing_of_run(failed, told, AROUND))]
    assert on_run[:2] == ["access_renewed", "retry"]
    assert waiting_for(failed, told, AROUND).reason == "access"  # type: ignore[union-attr]


def test_a_finished_task_speaks_for_itself():
    cancelled = standing_of_task(task(TaskStatus.CANCELLED), run(RunStatus.FAILED), AROUND)
    assert display_state(cancelled) is Display.CANCELLED
    assert display_state(standing_of_task(task(TaskStatus.REJECTED), None, AROUND)) is Display.FAILED
    assert display_state(standing_of_task(task(TaskStatus.DRAFT), None, AROUND)) is Display.DRAFT


def test_actions_name_only_permissions_that_exist():
    assert {row.permission for row in ACTIONS} <= {action.value for action in Action}


def test_every_state_of_every_kind_of_task_has_its_way_out():
    """The one that has none waits for the worker that was stopped, and says so."""
    columns = product(
        [False, True],  # archived
        ["", *(s.value for s in RunStatus)],
        [d.value for d in Directive],
        [False, True],
        ["", *(gate.value for gate in Gate)],
        ["", "access_to_renew", "person_decides"],
        [False, True],
        ["", BACKOFF, HOLD, CAP],
    )
    stuck = set()
    for archived, status, directive, leased, kind, blocked, undecidable, waits in columns:
        gate_fits = (status == RunStatus.WAITING_FOR_APPROVAL) == bool(kind)
        wait_fits = not waits or (status in list(CLAIMABLE) and not leased)
        if not (gate_fits and wait_fits):
            continue
        for told in _tasks_of(status):
            standing = Standing(
                told.value, archived, status, directive, leased, kind, blocked, undecidable, waits
            )
            state = display_state(standing)
            if not any(possible_actions(state, standing)):
                stuck.add((state, directive))
    assert stuck == {(Display.CANCELLING, "cancel")}


def _tasks_of(status: str) -> list[TaskStatus]:
    """What a task may be while its latest run has this status; without an active run, its own word."""
    ends = {
        RunStatus.SUCCEEDED.value: [TaskStatus.COMPLETED],
        RunStatus.CANCELLED.value: [TaskStatus.CANCELLED],
        RunStatus.WAITING_FOR_APPROVAL.value: [TaskStatus.WAITING_FOR_APPROVAL],
    }
    failed = [TaskStatus.FAILED, TaskStatus.RUNNING, TaskStatus.WAITING_FOR_APPROVAL]
    ends |= {RunStatus.FAILED.value: failed, RunStatus.EXPIRED.value: failed}
    return ends.get(status, [TaskStatus.RUNNING] if status else list(TaskStatus))


def test_an_open_pull_request_can_not_be_stopped():
    standing = standing_of_run(run(RunStatus.PR_CREATED), task(), AROUND)
    assert [row.name for row in possible_actions(Display.RUNNING, standing)] == ["open_logs"]


def test_retry_now_is_offered_only_in_a_backoff():
    state = run(RunStatus.QUEUED, idle_since="2026-07-03T09:00:00.000000Z")
    lonely = standing_of_run(state, task(), Around(NOW, fresh_after=FRESH))
    assert [row.name for row in possible_actions(Display.WAITING, lonely)] == ["cancel"]


def test_stop_now_is_offered_from_a_wind_down_only():
    for directive, names in (("wind_down", ["cancel"]), ("cancel", [])):
        standing = standing_of_run(
            run(RunStatus.EXECUTING, directive=directive, holder=HOLDER), task(), AROUND
        )
        assert [row.name for row in possible_actions(Display.CANCELLING, standing)] == names


def test_every_unfinished_run_says_what_it_waits_for():
    for status in RunStatus:
        for holder in (None, HOLDER):
            state = run(status, holder=holder)
            if status is RunStatus.WAITING_FOR_APPROVAL:
                state.gate = gate(Gate.PATCH)
            wait = waiting_for(state, task(), AROUND)
            silent = status.is_terminal or (
                holder is None and status in (RunStatus.CREATED, RunStatus.LEASED, RunStatus.PR_CREATED)
            )
            assert (wait is None) is silent, status
            assert wait is None or (wait.reason in REASONS and wait.sentence.endswith("."))


def test_a_stop_says_whether_the_worker_has_heard_it():
    info = {"reason": "wrong branch", "by": "bob", "at": "2026-07-03T10:05:00.000000Z", "seen_at": ""}
    state = run(RunStatus.EXECUTING, holder=HOLDER, directive="cancel", directive_info=info)
    due = "2026-07-03T10:06:30.000000Z"
    wait = waiting_for(state, task(), AROUND, due)
    assert wait is not None
    assert (
        wait.sentence
        == "bob stopped it; eu-3 has not heard it yet. Without an answer it is cancelled at 10:06 UTC."
    )
    info["seen_at"] = "2026-07-03T10:05:10.000000Z"
    heard = waiting_for(state, task(), AROUND, due)
    assert heard is not None
    assert "eu-3 knows since 10:05 UTC" in heard.sentence


def test_a_review_says_how_long_and_until_when():
    wait = waiting_for(run(RunStatus.WAITING_FOR_APPROVAL, gate=gate(Gate.PLAN)), task(), AROUND)
    assert wait is not None
    assert wait.sentence == "Review of the plan, requested 42 min ago, due at 09:24 UTC on 06 Jul."
    assert wait.to_json()["whose_move"] == "reviewer"


def test_quorum_is_said_as_what_is_missing():
    state = run(RunStatus.WAITING_FOR_APPROVAL, gate=gate(Gate.PATCH, needed=2))
    standing = standing_of_run(state, task(), AROUND)
    assert missing(Display.NEEDS_REVIEW, standing, state, task()) == "2 approvals of the patch"


def test_steps_are_the_contracts_words():
    assert step_label(RunStatus.EXECUTING) == "Editing files"
    assert step_label(RunStatus.EXECUTING, "analysis_report_created") == "Reading the code"
    assert step_label(RunStatus.QUEUED) is None
    assert step_label("") is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"),
        (48, "48 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7500, "2 h 5 min"),
        (7200, "2 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_spells_are_short(seconds: int, words: str):
    from datetime import timedelta

    assert spell(timedelta(seconds=seconds)) == words


def test_a_clock_names_the_day_when_it_is_another():
    assert clock(NOW, now=NOW) == "10:06 UTC"
    assert clock(NOW, now="2026-07-04T10:06:00.000000Z") == "10:06 UTC on 03 Jul"
