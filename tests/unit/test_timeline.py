"""The story of a run: phases, folded work and repeats, named gaps, repairs told as one thing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from runs.domain.facts import Actor, Event, stamp
from runs.domain.said import KEY, failure_words, listed, short
from runs.domain.sentences import _TELLERS, tell
from runs.domain.timeline import Item, Phase, timeline
from runs.domain.vocabulary import Ev, RunStatus

START = datetime(2026, 7, 3, 10, 0, tzinfo=UTC)
S = RunStatus


class Log:
    """Events of one run, a few seconds apart unless it says more."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.status = ""
        self.at = START

    def add(self, event: Ev, to: RunStatus | None = None, *, after: int = 2, actor: str = "worker",
            name: str = "eu-3", facts: dict[str, Any] | None = None, **payload: Any) -> Log:  # fmt: skip
        self.at += timedelta(seconds=after)
        before, self.status = self.status, (to.value if to else self.status)
        self.events.append(
            Event(
                run_id="run_1",
                sequence=len(self.events) + 1,
                type=event.value,
                from_status=before,
                to_status=self.status,
                attempt=1,
                actor=Actor(actor, f"id_{name}", name),
                fence=1,
                payload=payload,
                facts=facts or {},
                recorded_at=stamp(self.at),
                occurred_at=stamp(self.at),
            )
        )
        return self

    def tool(self, operation: str, label: str, outcome: str = "succeeded", cost: str | None = None) -> Log:
        self.add(Ev.TOOL_REQUESTED, operation_id=operation, tool="shell", arguments={}, label=label)
        more: dict[str, Any] = {"cost_usd": cost} if cost else {}
        return self.add(Ev.TOOL_COMPLETED, operation_id=operation, outcome=outcome, **more)

    def started(self) -> Log:
        self.add(Ev.RUN_CREATED, S.CREATED, attempt_no=1, instruction_no=1)
        self.add(Ev.RUN_ENQUEUED, S.QUEUED)
        self.add(Ev.LEASE_ACQUIRED, S.LEASED)
        self.add(Ev.WORKER_STARTED, S.PREPARING, worker_version="1")
        self.add(Ev.SANDBOX_READY, S.CONTEXT_BUILDING, base_commit="4f2c1ab" * 6, sandbox_id="s")
        return self.add(Ev.CONTEXT_READY, S.PLANNING, summary="214 files read")

    def planned(self) -> Log:
        plan = {
            "id": "art_1",
            "files": ["a", "b"],
            "verifiers": ["pytest"],
            "risks": [],
            "summary": "Replace",
        }
        self.add(Ev.PLAN_CREATED, S.EXECUTING, facts={"plan": plan}, plan_artifact_id="art_1")
        return self.add(Ev.ATTEMPT_STARTED, number=1, strategy="as planned")

    def patched(self) -> Log:
        patch = {"id": "art_2", "files": 3, "added": 31, "deleted": 29}
        return self.add(Ev.PATCH_CREATED, S.PATCH_READY, facts={"patch": patch}, summary="")

    def check(self, exit_code: int) -> Log:
        self.add(Ev.VERIFICATION_STARTED, S.VERIFYING, actor="verifier", commands=["pytest"])
        command = {"name": "pytest", "exit_code": exit_code, "duration_ms": 2000}
        report = {"id": "art_3", "commands": [command]}
        failed = exit_code != 0
        event = Ev.VERIFICATION_FAILED_RETRYABLE if failed else Ev.VERIFICATION_PASSED
        return self.add(
            event, S.EXECUTING if failed else S.JUDGING, actor="verifier", facts={"verification": report}
        )

    def items(self, **options: Any) -> list[Item]:
        return [item for phase in self.phases(**options) for item in phase.items]

    def phases(self, **options: Any) -> list[Phase]:
        return timeline(self.events, **options)

    def sentences(self, **options: Any) -> list[str]:
        return [item.sentence for item in self.items(**options)]


def test_phases_carry_the_words_of_the_display():
    log = Log().started().planned().tool("1", "Edit clock.py").patched().check(0)
    assert [phase.title for phase in log.phases()] == ["Queued", "Starting", "Thinking", "Running"]


def test_a_stretch_of_work_is_one_sentence_with_steps_and_cost():
    log = Log().started().planned()
    for number in range(14):
        log.add(Ev.MODEL_DECISION, decision="tool", cost_usd="0.01")
        log.tool(str(number), "Edit clock.py" if number % 2 else "Read clock.py")
    work = log.items()[-1]
    assert work.sentence == "Read clock.py; Edit clock.py"
    assert work.said.detail == "in 14 steps, $0.14"
    assert (work.seq_from, work.seq_to) == (9, 50)


def test_ten_thousand_events_read_in_one_screen():
    log = Log().started().planned()
    for number in range(5_000):
        log.tool(str(number), f"Step {number}")
    sentences = log.sentences()
    assert len(log.events) > 10_000
    assert len(sentences) < 12
    assert sentences[-1] == "Step 0; Step 4999; and 4998 more"


def test_guards_have_the_names_of_the_review_page():
    log = Log().started().planned().patched()
    log.add(
        Ev.POLICY_EVALUATED,
        facts={"guards": [{"name": "auto_pr_task", "passed": False}, {"name": "of_old", "passed": None}]},
    )
    log.add(Ev.GUARD_WAIVED, actor="human", name="carol", guard="secret_scan", reason="A sample.")
    said = log.sentences()
    assert said[-2:] == [
        "2 guards of 2 did not pass: Task allows it, Of old",
        "carol waived the guard “Secrets”",
    ]


def test_a_repair_is_told_with_what_failed():
    log = Log().started().planned().tool("1", "Run the codemod").patched().check(1)
    log.tool("2", "Add the missing import", cost="0.06").patched().check(0)
    repair = next(item for item in log.items() if "repaired" in item.sentence)
    assert repair.sentence == "pytest failed; the agent repaired it: add the missing import"
    assert (repair.said.tone, repair.said.icon) == ("warn", "wrench")
    assert not any(item.sentence == "pytest failed" for item in log.items())


def test_a_repair_is_told_so_even_when_another_worker_made_it():
    log = Log().started().planned().tool("1", "Run the codemod").patched().check(1)
    log.add(Ev.LEASE_ACQUIRED, actor="agent_runtime", name="eu-4", after=90)
    log.tool("2", "Add the import").patched()
    assert "pytest failed; the agent repaired it: add the import" in log.sentences()
    assert "Worker eu-4 goes on" in log.sentences()


def test_an_unrepaired_failure_stands_alone_in_red():
    log = Log().started().planned().tool("1", "Run the codemod").patched().check(1).tool("2", "Try again")
    failed = next(item for item in log.items() if item.sentence == "pytest failed")
    assert failed.said.tone == "bad"
    assert log.sentences()[-1] == "Try again"


def test_feedback_with_details_is_told_by_its_summary():
    report = {"commands": [{"name": "test", "exit_code": 1}]}
    feedback = {"source": "verification", "text": {"summary": "2 tests fail", "commands": [{"name": "test"}]}}
    facts = {"verification": report, "feedback": feedback}
    log = Log().add(Ev.VERIFICATION_FAILED_RETRYABLE, S.EXECUTING, facts=facts)
    said = tell(log.events[0])
    assert said is not None
    assert said.detail == "2 tests fail"


def test_waiting_for_a_person_is_a_gap_that_names_them():
    log = Log().started()
    log.add(
        Ev.HUMAN_APPROVAL_REQUIRED, S.WAITING_FOR_APPROVAL, actor="policy", gate="plan", approval_id="apr_1"
    )
    log.add(Ev.APPROVED, S.EXECUTING, after=42 * 60, actor="human", name="bob", comment="Go on.")
    gap = next(item for item in log.items() if item.gap)
    assert gap.sentence == "42 min waiting for bob to approve the plan"
    assert [phase.title for phase in log.phases()][-1] == "Thinking"
    assert log.items()[-1].said.detail == "Go on."


def test_idle_time_is_named_by_what_ended_it():
    log = Log()
    log.add(Ev.RUN_CREATED, S.CREATED, attempt_no=2).add(Ev.RUN_ENQUEUED, S.QUEUED)
    log.add(Ev.LEASE_ACQUIRED, S.LEASED, after=300)
    assert "5 min waiting for a worker with role worker" in log.sentences()
    log.add(Ev.WORKER_STARTED, S.PREPARING, after=900, worker_version="1")
    assert "15 min without news" in log.sentences()


def test_short_pauses_are_no_gaps():
    assert not any(item.gap for item in Log().started().planned().items())


def test_the_same_sentence_again_is_said_once_with_how_often():
    log = Log().started().planned().patched().check(0)
    log.add(Ev.AUTO_PR_ALLOWED, S.PR_CREATING, actor="policy")
    failure = {"category": "PR_CREATION_FAILED", "reason": "push", "summary": "The remote hung up."}
    for _ in range(4):
        log.add(Ev.PR_CREATION_FAILED, actor="git_integration", failure=failure)
    last = log.items()[-1]
    assert last.sentence == "Opening the pull request failed: The remote hung up, 4 times"
    assert last.seq_to - last.seq_from == 3


def test_one_failed_step_is_told_as_failed():
    log = Log().started().planned().tool("1", "Run the codemod", outcome="failed")
    last = log.items()[-1]
    assert (last.sentence, last.said.tone) == ("Run the codemod failed", "bad")


def test_importance_leaves_what_matters():
    log = Log().started().planned().tool("1", "Run the codemod").patched().check(1)
    assert log.sentences(importance=KEY) == [
        "Plan made: 2 paths, 1 check, 0 risks",
        "Patch made: 3 files, +31 −29",
        "pytest failed",
    ]


def test_a_higher_budget_is_told_with_its_amount():
    limits = {"max_cost_usd": "1.5", "max_steps": 1_200}
    log = Log().started().add(Ev.BUDGET_RAISED, actor="human", name="opa", facts={"budget": limits})
    assert log.sentences(importance=KEY)[-1] == "opa raised the budget to $1.50 and 1,200 steps"


def test_an_end_is_a_phase_of_its_own():
    log = Log().started()
    failure = {"category": "REPOSITORY_ACCESS", "reason": "clone_failed", "summary": "No access."}
    log.add(Ev.NON_RETRYABLE_FAILURE, S.FAILED, facts={"failure": failure}, failure=failure)
    log.add(Ev.RETRY_DECLINED, actor="policy", facts={"reason": "Somebody must renew access first."})
    last = log.phases()[-1]
    assert last.title == "Failed"
    assert [item.sentence for item in last.items] == ["Failed: No access", "No further run by itself"]


def test_every_event_type_is_told_or_part_of_work_or_silent_on_purpose():
    silent = {Ev.RUN_ENQUEUED, Ev.MODEL_DECISION, Ev.TOOL_REQUESTED, Ev.TOOL_COMPLETED, Ev.CHECKPOINT_SAVED}
    assert set(Ev) - set(_TELLERS) == silent


def test_an_event_of_a_newer_version_says_nothing():
    event = Log().started().events[0]
    unknown = Event(**{**{name: getattr(event, name) for name in event.__slots__}, "type": "from_the_future"})
    assert tell(unknown) is None


def test_words_are_short_and_listed():
    assert listed(["a", "b", "c", "d", "e"]) == "a, b and 3 more"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert short("\n\n  first line \nsecond") == "first line"
    assert len(short("word " * 100)) < 165
    assert failure_words({"category": "TOOL_FAILED"}) == "tool failed"
