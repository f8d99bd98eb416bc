"""A run from its claim to its end, as the control plane sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.worker.repositories import commit_files, git
from worker.conformance.stand_in import StandIn

Work = Callable[..., None]
FULL_LINE = [
    "worker_started",
    "sandbox_ready",
    "context_ready",
    "plan_created",
    "tool_requested",
    "tool_completed",
    "checkpoint_saved",
    "patch_created",
    "verification_started",
    "verification_passed",
    "judge_passed",
]


def test_a_script_run_goes_the_full_line(plane: StandIn, work: Work, repository: Path) -> None:
    work()
    assert plane.types() == FULL_LINE
    assert plane.state.status == "SUCCEEDED"
    assert plane.state.base_commit == git(repository, "rev-parse", "HEAD")
    patch = plane.stored("patch")[0].decode()
    assert "-two\n+three\n" in patch
    plan = json.loads(plane.stored("plan")[0])
    assert plan["files"] == ["*.txt"]
    assert plan["verifiers"] == ["no-two"]
    assert plan["must_not_change"] == ["secret/**"]
    report = json.loads(plane.stored("verification_report")[0])
    assert [command["exit_code"] for command in report["commands"]] == [0]
    assert [entry["exit_code"] for entry in report["baseline"]] == [1]
    judged = json.loads(plane.stored("judge_report")[0])
    assert judged["subject_sha256"] == report["patch_sha256"] == plane.state.cited["patch"]["sha256"]
    assert plane.heartbeats > 0


def test_the_patch_applies_to_the_base_with_git_itself(
    plane: StandIn, work: Work, repository: Path, tmp_path: Path, contract: dict[str, Any]
) -> None:
    contract["allowed_paths"] = []
    contract["agent"]["command"] = (
        "sed -i s/two/three/ notes.txt; mkdir -p 'new dir'; printf 'a\\000b' > 'new dir/b.bin';"
        " mv clock.py time.py; chmod +x time.py;"
        " echo x > ignored.log; mkdir build; echo x > build/out; ln -s notes.txt link"
    )
    work()
    patch = tmp_path / "work.patch"
    patch.write_bytes(plane.stored("patch")[0])
    git(repository, "apply", "--cached", str(patch))
    names = git(repository, "diff", "--cached", "--name-only", "--no-renames").splitlines()
    assert names == ["clock.py", "link", "new dir/b.bin", "notes.txt", "time.py"]


def test_a_failed_check_is_repaired_with_its_report(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    contract["agent"]["command"] = (
        'if [ -s "$AGENT_FEEDBACK_FILE" ]; then'
        ' grep -q no-two "$AGENT_FEEDBACK_FILE" && sed -i s/two/three/ notes.txt;'
        " else echo first > extra.txt; fi; echo repair $AGENT_REPAIR attempt $AGENT_ATTEMPT"
    )
    work()
    assert plane.state.status == "SUCCEEDED"
    assert plane.types().count("verification_failed_retryable") == 1
    operations = [payload["operation_id"] for payload in plane.payloads("tool_requested")]
    assert operations == ["run_1.a1.r0.f1", "run_1.a1.r1.f1"]
    assert [payload["summary"] for payload in plane.payloads("tool_completed")] == [
        "repair 0 attempt 1",
        "repair 1 attempt 1",
    ]
    # The second pass goes on in the same checkout.
    assert b"extra.txt" in plane.stored("patch")[1]


def test_a_failed_attempt_starts_again_from_a_clean_checkout(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    contract["agent"]["command"] = (
        "if [ $AGENT_ATTEMPT = 1 ]; then echo dirt > dirt.txt; echo cannot >&2; exit 3; fi;"
        " sed -i s/two/three/ notes.txt"
    )
    work()
    assert plane.state.status == "SUCCEEDED"
    failure = plane.payloads("attempt_finished")[0]["failure"]
    assert (failure["category"], failure["reason"]) == ("TOOL_FAILED", "agent_failed")
    assert "cannot" in failure["summary"]
    assert b"dirt" not in plane.stored("patch")[0]


def test_the_command_agent_gets_the_prompt_on_standard_input(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    contract["agent"] = {"kind": "command", "command": "cat > prompt.txt; sed -i s/two/three/ notes.txt"}
    plane.state.instructions = [
        {"number": 1, "text": "Replace two"},
        {"number": 2, "text": "Write the prompt down"},
    ]
    work()
    patch = plane.stored("patch")[0].decode()
    assert "+Replace two\n" in patch
    assert "+2. Write the prompt down\n" in patch


@pytest.mark.parametrize("command", ["echo found clock.py; seq 60", 'seq 60 > "$AGENT_REPORT_FILE"; echo no'])
def test_an_analysis_hands_in_a_report_and_no_patch(
    plane: StandIn, work: Work, contract: dict[str, Any], command: str
) -> None:
    contract["completion_mode"] = "analysis_report_created"
    contract["agent"]["command"] = command
    work()
    assert plane.state.status == "SUCCEEDED"
    assert plane.types()[-2:] == ["report_created", "judge_passed"]
    assert not plane.stored("patch")
    assert plane.stored("analysis_report")[0].endswith(b"60\n")


def test_a_link_in_place_of_the_report_is_not_followed(
    plane: StandIn, work: Work, contract: dict[str, Any], tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    canary.write_text("canary " * 50)
    contract["completion_mode"] = "analysis_report_created"
    contract["agent"]["command"] = f'ln -s {canary} "$AGENT_REPORT_FILE"; seq 60'
    work()
    assert b"canary" not in plane.stored("analysis_report")[0]


def test_an_agent_that_changes_nothing_is_no_success(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    contract["agent"]["command"] = "echo nothing to do here"
    work()
    failure = plane.payloads("non_retryable_failure")[0]["failure"]
    assert (failure["category"], failure["reason"]) == ("JUDGE_REJECTED", "no_changes")
    assert "nothing to do here" in failure["summary"]


def test_an_agent_that_makes_the_refused_patch_again_is_not_asked_a_third_time(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    contract["verifiers"] = [{"name": "never", "command": "false"}]
    work()
    failure = plane.payloads("non_retryable_failure")[0]["failure"]
    assert (failure["category"], failure["reason"]) == ("VERIFICATION_FAILED", "same_patch")
    assert len(plane.payloads("verification_failed_retryable")) == 1


def test_an_unreachable_repository_is_an_access_failure(plane: StandIn, work: Work) -> None:
    plane.state.url = "/nowhere/at/all"
    work()
    failure = plane.payloads("non_retryable_failure")[0]["failure"]
    assert (failure["category"], failure["retryable"]) == ("REPOSITORY_ACCESS", True)


def test_a_failing_setup_is_infrastructure_with_its_log(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    contract["setup"] = ["echo no such package; exit 9"]
    work()
    failure = plane.payloads("non_retryable_failure")[0]["failure"]
    assert (failure["category"], failure["reason"]) == ("INFRASTRUCTURE", "setup_failed")
    assert plane.artifacts[failure["evidence_artifact_id"]] == ("log", b"no such package\n")


def test_what_setup_makes_is_no_part_of_the_patch(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    contract["setup"] = ["echo installed > installed.txt"]
    work()
    assert plane.state.status == "SUCCEEDED"
    assert b"installed" not in plane.stored("patch")[0]


def test_a_flaky_check_is_shown_as_such_and_costs_no_repair(
    plane: StandIn, work: Work, contract: dict[str, Any]
) -> None:
    flaky = 'test -e "$HOME/seen" || { touch "$HOME/seen"; exit 1; }'
    contract["verifiers"] = [{"name": "flaky", "command": flaky}]
    work()
    assert plane.state.status == "SUCCEEDED"
    report = json.loads(plane.stored("verification_report")[0])
    command = report["commands"][0]
    assert (command["exit_code"], command["flaky"], command["first_exit_code"]) == (0, True, 1)


def test_a_check_that_runs_too_long_is_timed_out(
    plane: StandIn, work: Work, contract: dict[str, Any], repository: Path
) -> None:
    contract["verifiers"] = [
        {"name": "slow", "command": "grep -q two notes.txt || sleep 600", "timeout_seconds": 0.3}
    ]
    plane.after_event = lambda event: (
        setattr(plane.state, "directive", "wind_down") if event == "verification_started" else None
    )
    work()
    report = json.loads(plane.stored("verification_report")[0])
    assert report["commands"][0]["timed_out"] is True
    assert "ran out of time" in report["feedback"]["summary"]


def test_the_verifier_sees_neither_token_nor_worker_variables(
    plane: StandIn, work: Work, contract: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_KEY", "very-secret-value")
    contract["agent"]["command"] = "echo key=$MODEL_KEY; sed -i s/two/three/ notes.txt"
    contract["verifiers"] = [{"name": "env", "command": "env"}]
    work(agent_env=("MODEL_KEY",))
    outputs = b"".join(plane.stored("output"))
    assert b"key=[masked]" in outputs
    assert b"MODEL_KEY" not in outputs
    assert b"very-secret-value" not in outputs
    assert plane.token.encode() not in outputs


def test_the_baseline_is_run_once_for_a_commit(
    plane: StandIn, work: Work, contract: dict[str, Any], tmp_path: Path
) -> None:
    count = tmp_path / "count"
    contract["verifiers"] = [{"name": "count", "command": f"echo x >> {count}"}]
    work()
    assert count.read_text() == "x\nx\n"
    plane.state.status, plane.state.steps, plane.state.cited = "QUEUED", [], {}
    work()
    assert count.read_text() == "x\nx\nx\n"
    assert json.loads(plane.stored("verification_report")[1])["baseline"][0]["cached"] is True


def test_the_judge_sends_an_outside_change_back(plane: StandIn, work: Work, contract: dict[str, Any]) -> None:
    contract["agent"]["command"] = (
        'sed -i s/two/three/ notes.txt; [ -s "$AGENT_FEEDBACK_FILE" ] && rm -f more.md || echo x > more.md'
    )
    work()
    assert plane.types().count("judge_requires_fix") == 1
    assert plane.state.status == "SUCCEEDED"
    assert b"more.md" not in plane.stored("patch")[-1]


def test_a_plan_gate_ends_the_work(plane: StandIn, work: Work) -> None:
    plane.state.plan_gate = True
    work()
    assert plane.types()[-1] == "plan_created"
    assert not plane.released


def test_the_working_directory_may_not_lead_outside(
    plane: StandIn, work: Work, contract: dict[str, Any], repository: Path
) -> None:
    contract["working_directory"] = "out"
    (repository / "out").symlink_to("/tmp")
    commit_files(repository, {"other.txt": "x\n"})
    work()
    assert plane.payloads("attempt_finished") == []
    failure = plane.payloads("non_retryable_failure")[0]["failure"]
    assert failure["reason"] == "working_directory_missing"
    assert failure["retryable"] is False
