"""A stateful machine over the service: whatever is tried, in whatever order, the promises hold.

The quick form runs everywhere; ``-m long`` runs the long form, 2,000 stories of 50 steps in eight parts.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runs.domain.errors import Refusal
from runs.domain.table import CLAIM_EVENTS, PEOPLE_EVENTS, allowed_events
from runs.domain.vocabulary import CLAIMABLE, CompletionMode, Ev, Role
from runs.models import Run
from tests.driver import Driver
from tests.folding import Watched, check_run, check_task

MACHINE_EVENTS = [event for event in Ev if event not in PEOPLE_EVENTS | CLAIM_EVENTS]
GATE_EVENTS = [Ev.APPROVED, Ev.CHANGES_REQUESTED, Ev.REJECTED, Ev.VOTE_RECORDED]
DIRECTIVES = [Ev.CANCEL_REQUESTED, Ev.PAUSE_REQUESTED, Ev.WIND_DOWN_REQUESTED, Ev.RUN_RESUMED]


class Runs(RuleBasedStateMachine):
    """One task and all its runs, driven by everybody at once."""

    @initialize(
        mode=st.sampled_from(list(CompletionMode)),
        auto_pr=st.booleans(),
        plan=st.sampled_from(["never", "required"]),
        ask=st.sampled_from(["ask", "stop"]),
    )
    def begin(self, mode: str, auto_pr: bool, plan: str, ask: str) -> None:
        self.outer = transaction.atomic()
        self.outer.__enter__()
        self.driver = Driver.started(
            policy={"on_budget_exceeded": ask},
            completion_mode=str(mode),
            auto_pr=auto_pr,
            plan_approval=plan,
            budget={"max_cost_usd": "2"},
        )
        self.watched: dict[str, Watched] = {}
        self.task_version = 0

    def teardown(self) -> None:
        if hasattr(self, "outer"):
            for run in Run.objects.select_related("task").filter(task_id=self.driver.task_id):
                check_run(run)  # from the first event, as if nobody had looked on
            transaction.set_rollback(True)
            self.outer.__exit__(None, None, None)

    def _try(self, action: Any, *args: Any, **more: Any) -> None:
        """Refused or taken; nothing else may happen."""
        try:
            action(*args, **more)
        except Refusal:
            return

    @rule()
    def go_on(self) -> None:
        state = self.driver.state
        if state.is_terminal:
            self.driver.follow()
        elif state.status != "WAITING_FOR_APPROVAL" and not (
            state.holder is None and state.directive == "pause"
        ):
            self._try(self.driver.step)

    @precondition(lambda self: self.driver.state.run_status in CLAIMABLE)
    @rule(role=st.sampled_from(sorted(set(CLAIMABLE.values()))))
    def claim(self, role: Role) -> None:
        before = self.driver.state
        try:
            self.driver.claim(role)
        except AssertionError:  # not offered: held, paused, waiting, or not that role's
            assert self.driver.state == before

    @rule(data=st.data())
    def post_what_is_legal(self, data: st.DataObject) -> None:
        legal = [event for event in allowed_events(self.driver.state.run_status) if event in MACHINE_EVENTS]
        if legal:
            self._try(self.driver.post, data.draw(st.sampled_from(legal)))

    @rule(event=st.sampled_from(MACHINE_EVENTS), stale=st.booleans())
    def post_anything(self, event: Ev, stale: bool) -> None:
        self._try(self.driver.post, event, role=None, lease_token="stale" if stale else self.driver.token)

    @rule(cost=st.sampled_from(["0.3", "1", None]))
    def spend(self, cost: str | None) -> None:
        self._try(self.driver.post, Ev.MODEL_DECISION, {"decision": "tool", "cost_usd": cost})

    @rule(event=st.sampled_from(GATE_EVENTS))
    def decide(self, event: Ev) -> None:
        self._try(self.driver.decide, event)

    @rule(event=st.sampled_from(DIRECTIVES))
    def direct(self, event: Ev) -> None:
        self._try(self.driver.direct, event)

    @rule()
    def lose(self) -> None:
        self._try(self.driver.lose_lease)

    @invariant()
    def promises_hold(self) -> None:
        for run in Run.objects.select_related("task").filter(task_id=self.driver.task_id):
            watched = self.watched.setdefault(run.pk, Watched())
            fence, ended = watched.state.fence, watched.state.is_terminal and watched.state.status
            new = watched.look(run)
            assert run.fence >= fence
            assert not ended or {event.to_status for event in new} <= {ended}
        task = self.driver.task
        if task.version != self.task_version:
            check_task(task)
            self.task_version = task.version


def _run(examples: int, steps: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    unhurried = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(Runs, settings=unhurried)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        (25, 30),
        pytest.param(200, 30, marks=pytest.mark.long, id="ci"),
        *[pytest.param(250, 50, marks=pytest.mark.long, id=f"chaos-{part}-of-8") for part in range(1, 9)],
    ],
)
def test_promises_hold_whatever_is_tried(examples, steps):
    _run(examples, steps)
