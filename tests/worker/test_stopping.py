"""Cancel, pause, wind-down, a lost lease, a shutdown: what a run's people and its lease may ask."""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker.conformance.stand_in import StandIn
from worker.drain import Drain
from worker.sandbox import folder
from worker.sandbox.process import end_marked

Work = Callable[..., None]
Aside = Callable[..., threading.Thread]


def until_killed(started: Path) -> str:
    """A command that says it has begun, then goes on for ever, with a child."""
    return f"echo partial >> notes.txt; sleep 1000 & touch {started}; sleep 1000"


def end(thread: threading.Thread) -> None:
    thread.join(20)
    assert not thread.is_alive()


def wait_for_file(plane: StandIn, path: Path) -> None:
    """Each heartbeat wakes the waiter."""
    plane.wait_for(path.exists)


def test_cancel_ends_the_command_and_keeps_its_partial_work(
    plane: StandIn, work_aside: Aside, contract: dict[str, Any], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    contract["agent"]["command"] = until_killed(started)
    thread = work_aside()
    wait_for_file(plane, started)
    plane.state.directive = "cancel"
    end(thread)
    assert plane.types()[-3:] == ["tool_completed", "checkpoint_saved", "run_cancelled"]
    assert plane.payloads("run_cancelled")[0] == {
        "cleanup": "done",
        "process_group_gone": True,
        "artifacts_saved": True,
    }
    assert b"+partial" in plane.stored("checkpoint")[0]
    assert plane.state.status == "CANCELLED"


def test_a_full_disk_keeps_no_run_from_ending_and_is_told(
    plane: StandIn,
    work_aside: Aside,
    contract: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = tmp_path / "started"
    contract["agent"]["command"] = until_killed(started)
    thread = work_aside()
    wait_for_file(plane, started)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    # The first thing that is written when the work so far is looked at.
    monkeypatch.setattr("worker.sandbox.git.init_bare", full)
    plane.state.directive = "cancel"
    end(thread)
    assert plane.payloads("run_cancelled") == [
        {"cleanup": "done", "process_group_gone": True, "artifacts_saved": False}
    ]
    assert plane.state.status == "CANCELLED"


def test_what_cannot_be_removed_is_told_and_swept_by_the_next_start(
    plane: StandIn,
    make_worker: Callable[..., Any],
    contract: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = tmp_path / "started"
    contract["agent"]["command"] = until_killed(started)
    remove = folder.remove_tree
    monkeypatch.setattr(folder, "remove_tree", lambda path: not path.exists())
    thread = threading.Thread(target=make_worker().run, kwargs={"once": True}, daemon=True)
    thread.start()
    wait_for_file(plane, started)
    plane.state.directive = "cancel"
    end(thread)
    assert plane.payloads("run_cancelled")[0]["cleanup"] == "partial"
    assert plane.state.status == "CANCELLED"
    monkeypatch.setattr(folder, "remove_tree", remove)
    (left,) = (tmp_path / "work" / "runs").iterdir()
    owner = json.loads((left / folder.OWNER_FILE).read_text())
    (left / folder.OWNER_FILE).write_text(json.dumps({**owner, "started": "1"}))
    assert folder.sweep_orphans(tmp_path / "work") == [left.name]
    assert not left.exists()


def test_cancel_that_an_event_is_refused_for_is_obeyed(plane: StandIn, work: Work) -> None:
    plane.after_event = lambda event: (
        setattr(plane.state, "directive", "cancel") if event == "context_ready" else None
    )
    work()
    assert plane.types()[-1] == "run_cancelled"
    assert "plan_created" not in plane.types()


def test_pause_lets_the_command_finish_and_hands_its_work_in(plane: StandIn, work: Work) -> None:
    plane.after_event = lambda event: (
        setattr(plane.state, "directive", "pause") if event == "tool_requested" else None
    )
    work()
    # Asked for between announcement and start, the call is left pending for whoever resumes.
    assert plane.types()[-1] == "run_interrupted"
    assert plane.state.pending
    plane.state.directive, plane.after_event = "continue", lambda event: None
    work()
    assert plane.state.status == "SUCCEEDED"
    assert len(plane.payloads("tool_requested")) == 1
    assert plane.payloads("tool_completed")[0]["operation_id"] == "run_1.a1.r0.f1"


def test_pause_after_the_agent_takes_the_patch_and_verification_waits(plane: StandIn, work: Work) -> None:
    plane.after_event = lambda event: (
        setattr(plane.state, "directive", "pause") if event == "tool_completed" else None
    )
    work()
    assert "patch_created" in plane.types()
    assert "verification_started" not in plane.types()
    assert plane.types()[-1] == "run_interrupted"
    assert plane.payloads("run_interrupted")[0]["checkpoint_artifact_id"]


def test_wind_down_hands_in_what_there_is(plane: StandIn, work: Work) -> None:
    plane.after_event = lambda event: (
        setattr(plane.state, "directive", "wind_down") if event == "tool_completed" else None
    )
    work()
    assert plane.state.status == "SUCCEEDED"
    assert plane.types()[-4:] == [
        "patch_created",
        "verification_started",
        "verification_passed",
        "judge_passed",
    ]


def test_wind_down_with_nothing_in_hand_ends_cancelled(plane: StandIn, work: Work) -> None:
    plane.after_event = lambda event: (
        setattr(plane.state, "directive", "wind_down") if event == "plan_created" else None
    )
    work()
    assert plane.types()[-2:] == ["plan_created", "run_cancelled"]


def test_wind_down_repairs_nothing(plane: StandIn, work: Work, contract: dict[str, Any]) -> None:
    contract["verifiers"][0]["command"] = "exit 1"
    plane.after_event = lambda event: (
        setattr(plane.state, "directive", "wind_down") if event == "verification_started" else None
    )
    work()
    assert plane.types()[-3:] == ["verification_failed_retryable", "checkpoint_saved", "run_cancelled"]


def test_a_lost_lease_ends_the_work_without_a_word(
    plane: StandIn,
    work_aside: Aside,
    contract: dict[str, Any],
    tmp_path: Path,
    work_dir: Path,
) -> None:
    started = tmp_path / "started"
    contract["agent"]["command"] = until_killed(started)
    thread = work_aside()
    wait_for_file(plane, started)
    sandbox = next((tmp_path / "work" / "runs").iterdir()).name
    before = plane.types()
    plane.take_lease_away()
    end(thread)
    assert plane.types() == before
    assert not plane.released
    assert end_marked(sandbox, seconds=0)


def test_a_lease_that_cannot_be_renewed_counts_as_lost(
    plane: StandIn, work_aside: Aside, contract: dict[str, Any], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    plane.state.lease_seconds = 1.0
    contract["agent"]["command"] = until_killed(started)
    thread = work_aside()
    wait_for_file(plane, started)
    plane.break_call = lambda method, path: "away" if path.endswith("heartbeat") else None
    end(thread)
    assert plane.types()[-1] == "tool_requested"


def test_a_shutdown_gives_the_run_back_with_its_call_pending(
    plane: StandIn,
    work_aside: Aside,
    contract: dict[str, Any],
    tmp_path: Path,
    drain: Drain,
) -> None:
    started = tmp_path / "started"
    contract["agent"]["command"] = until_killed(started)
    thread = work_aside()
    wait_for_file(plane, started)
    drain.ask()
    end(thread)
    assert plane.released == ["the worker is shutting down"]
    assert [call["operation_id"] for call in plane.state.pending] == ["run_1.a1.r0.f1"]


def test_a_shutdown_before_the_claim_claims_nothing(
    plane: StandIn, make_worker: Callable[..., Any], drain: Drain
) -> None:
    drain.ask()
    make_worker().run()
    assert plane.calls == []


def test_the_partial_output_of_a_cancelled_command_is_kept(
    plane: StandIn, work_aside: Aside, contract: dict[str, Any], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    contract["agent"]["command"] = f"echo so far so good; {until_killed(started)}"
    thread = work_aside()
    wait_for_file(plane, started)
    plane.state.directive = "cancel"
    end(thread)
    completed = plane.payloads("tool_completed")[0]
    assert completed["outcome"] == "failed"
    assert plane.artifacts[completed["output_artifact_id"]][1] == b"so far so good\n"
    assert json.dumps(completed)
