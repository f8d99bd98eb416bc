"""Campaigns as pure rules: what follows from what became of their tasks, and what people may do."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from runs.domain.campaigns import decide
from runs.domain.campaigns.decide import Draft, Look, Seen, next_step
from runs.domain.campaigns.limits import check_limits, waves_of, with_defaults
from runs.domain.campaigns.selection import MOST_PATTERNS, check_selection, select
from runs.domain.campaigns.state import CampaignState, evolve_campaign, fold_campaign
from runs.domain.campaigns.table import CAMPAIGN_ROWS, campaign_target
from runs.domain.campaigns.words import (
    CAMPAIGN_FINAL,
    CampaignEv,
    CampaignStatus,
    Completion,
    Halt,
    PartState,
)
from runs.domain.errors import Invalid, NotAllowedNow
from runs.domain.facts import Actor, Event, Json
from runs.domain.vocabulary import TaskStatus

LENA = Actor("human", "per_lena", "lena")
DONE = Seen(TaskStatus.COMPLETED, cost_usd=Decimal("0.50"))
FAILED = Seen(TaskStatus.FAILED, reason="It broke.", cost_usd=Decimal("0.25"))
BUSY = Seen(TaskStatus.RUNNING)


class Log:
    """A campaign and its log, without a database: what the service does, in memory."""

    def __init__(self, parts: int = 10, **limits: Any) -> None:
        self.events: list[Event] = []
        self.state = CampaignState()
        self.tasks: dict[str, Seen] = {}
        contract = {"title": "Move", "completion_mode": "pr_created", "budget": {"max_cost_usd": "2"}}
        facts = {"repositories": [f"r{n}" for n in range(1, parts + 1)]}
        payload = {
            "title": "Move",
            "contract": contract,
            "limits": with_defaults(limits),
            "repositories": ["r*"],
        }
        self.append(Draft(CampaignEv.CAMPAIGN_CREATED, payload, facts, LENA))

    def append(self, *drafts: Draft) -> None:
        for draft in drafts:
            target = campaign_target(draft.event, self.state.status)
            assert target is not None, f"{draft.event} in {self.state.status}"
            number, facts = len(self.events) + 1, dict(draft.facts)
            if draft.event is CampaignEv.PART_STARTED:
                facts["task_id"] = f"task-{facts['repository_id']}-{number}"
                self.tasks[facts["repository_id"]] = BUSY
            at = f"2026-12-01T10:00:{number:09.6f}Z"
            status = self.state.status
            event = Event(
                "camp", number, draft.event, status, target, 0, draft.actor, 0, draft.payload, facts, at, at
            )
            self.events.append(event)
            evolve_campaign(self.state, event)

    def go_on(self) -> list[str]:
        """Step until nothing follows; the types of what did."""
        before = len(self.events)
        while drafts := next_step(self.state, self.look):
            self.append(*drafts)
        assert fold_campaign(self.events) == self.state
        return [str(event.type) for event in self.events[before:]]

    @property
    def look(self) -> Look:
        open_parts = {pk for pk, p in self.state.parts.items() if p.state in ("running", "delivered")}
        return Look({pk: seen for pk, seen in self.tasks.items() if pk in open_parts})

    def end(self, *names: str, seen: Seen = DONE) -> None:
        self.tasks.update(dict.fromkeys(names, seen))

    def in_state(self, state: PartState) -> list[str]:
        return [pk for pk, part in self.state.parts.items() if part.state == state]


def test_only_the_first_wave_is_begun_until_all_of_it_has_ended() -> None:
    log = Log(parts=10, first_wave=2)
    assert log.go_on() == ["part_started", "part_started"]
    log.end("r1")
    assert log.go_on() == ["part_ended"]
    assert log.in_state(PartState.RUNNING) == ["r2"]
    log.end("r2")
    assert log.go_on() == ["part_ended", "wave_opened", *["part_started"] * 4]


def test_waves_grow_until_every_repository_is_done_and_then_the_campaign_is_complete() -> None:
    log = Log(parts=10, first_wave=2, growth=2)
    sizes = []
    while log.go_on() and not log.state.is_over:
        sizes.append(len(log.in_state(PartState.RUNNING)))
        log.end(*log.in_state(PartState.RUNNING))
    assert sizes == [2, 4, 4] == waves_of(log.state.limits, 10)
    assert log.state.status == CampaignStatus.COMPLETED
    assert log.state.counts()["done"] == 10
    assert log.go_on() == []


def test_it_stops_as_soon_as_the_wave_cannot_stay_below_the_failure_limit() -> None:
    log = Log(parts=20, first_wave=5, failure_limit_percent=40)
    log.go_on()
    log.end("r1", seen=FAILED)
    assert "campaign_halted" not in log.go_on()
    log.end("r2", seen=FAILED)
    assert log.go_on() == ["part_ended", "campaign_halted"]
    assert (log.state.halt or {})["reason"] == Halt.FAILURE_RATE
    log.end("r3", "r4", "r5")
    assert log.go_on() == ["part_ended"] * 3, "what is under way is still told of, and nothing is begun"


def test_going_on_after_a_stop_accepts_what_failed() -> None:
    log = Log(parts=4, first_wave=2)
    log.go_on()
    log.end("r1", seen=FAILED)
    log.end("r2")
    log.go_on()
    log.append(*decide.resume(log.state, by=LENA))
    assert log.go_on() == ["wave_opened", "part_started", "part_started"]
    log.end("r3", "r4")
    assert log.go_on()[-1] == "campaign_completed"
    assert log.state.parts["r1"].accepted


def test_a_retried_repository_gets_another_task_and_its_cost_adds_up() -> None:
    log = Log(parts=2, first_wave=2)
    log.go_on()
    log.end("r1", seen=FAILED)
    log.end("r2")
    assert log.go_on()[-1] == "campaign_halted"
    first = log.state.parts["r1"].task_id
    log.append(*decide.retry_failed(log.state, by=LENA))
    assert log.go_on() == ["part_started"]
    assert log.state.parts["r1"].task_id != first
    log.end("r1")
    assert log.go_on() == ["part_ended", "campaign_completed"]
    assert (log.state.parts["r1"].tries, log.state.parts["r1"].cost_usd) == (2, "0.75")


def test_nothing_is_begun_whose_whole_budget_does_not_fit_under_the_cap() -> None:
    log = Log(parts=5, first_wave=5, max_cost_usd="5")
    assert log.go_on() == ["part_started", "part_started"], "2 + 2 of 5 may be spent; a third might cost 6"
    log.end("r1")
    assert log.go_on() == ["part_ended", "part_started"], "0.50 was spent: 0.50 + 2 + 2 is within 5"
    log.end("r2", "r3", seen=Seen(TaskStatus.COMPLETED, cost_usd=Decimal(2)))
    assert log.go_on()[-1] == "campaign_halted", "4.50 is spent and 2 more would be over it"
    assert (log.state.halt or {})["reason"] == Halt.SPEND_CAP
    log.append(
        *decide.change(log.state, {"max_cost_usd": "100"}, by=LENA), *decide.resume(log.state, by=LENA)
    )
    assert log.go_on() == ["part_started", "part_started"]


def test_where_the_merge_counts_a_completed_task_widens_but_does_not_complete() -> None:
    log = Log(parts=2, first_wave=1, completion=Completion.PULL_REQUESTS_MERGED)
    log.go_on()
    log.end("r1", seen=replace(DONE, merge="OPEN"))
    assert log.go_on() == ["part_delivered", "wave_opened", "part_started"]
    log.end("r2", seen=replace(DONE, merge="MERGED"))
    assert log.go_on() == ["part_ended"]
    log.end("r1", seen=replace(DONE, merge="MERGED"))
    assert log.go_on() == ["part_ended", "campaign_completed"]
    assert log.state.parts["r1"].cost_usd == "0.50"


def test_a_pull_request_closed_without_a_merge_is_a_failure_of_its_repository() -> None:
    log = Log(parts=1, first_wave=1, completion=Completion.PULL_REQUESTS_MERGED)
    log.go_on()
    log.end("r1", seen=replace(DONE, merge="CLOSED"))
    assert log.go_on() == ["part_ended", "campaign_halted"]
    assert log.in_state(PartState.FAILED) == ["r1"]


def test_while_paused_nothing_is_begun_and_what_ends_is_told() -> None:
    log = Log(parts=4, first_wave=2)
    log.go_on()
    log.append(*decide.pause(log.state, reason="Lunch", by=LENA))
    log.end("r1", "r2")
    assert log.go_on() == ["part_ended", "part_ended"]
    assert decide.pause(log.state, reason="again", by=LENA) == []
    log.append(*decide.resume(log.state, by=LENA))
    assert log.go_on() == ["wave_opened", "part_started", "part_started"]


def test_a_cancelled_campaign_ends_when_the_last_of_its_tasks_has() -> None:
    log = Log(parts=6, first_wave=2)
    log.go_on()
    log.append(*decide.cancel(log.state, reason="Wrong", by=LENA))
    assert len(log.in_state(PartState.CANCELLED)) == 4, "what was not begun never will be"
    assert log.go_on() == []
    log.end("r1", seen=Seen(TaskStatus.CANCELLED, reason="Stopped."))
    log.end("r2")
    assert log.go_on() == ["part_ended", "part_ended", "campaign_cancelled"]
    assert log.in_state(PartState.DONE) == ["r2"], "what was done before stays done"


def test_a_repository_that_was_archived_meanwhile_is_left_out_and_no_failure() -> None:
    log = Log(parts=2, first_wave=2)
    drafts = next_step(log.state, Look(archived=frozenset({"r1"})))
    log.append(*drafts)
    assert log.in_state(PartState.CANCELLED) == ["r1"]


def test_many_repositories_are_begun_in_small_transactions() -> None:
    log = Log(parts=30, first_wave=30)
    assert len(next_step(log.state, log.look)) == decide.MOST_STARTS
    assert log.go_on() == ["part_started"] * 30


_PEOPLE: dict[str, Callable[[CampaignState], list[Draft]]] = {
    "pause": lambda state: decide.pause(state, reason="", by=LENA),
    "resume": lambda state: decide.resume(state, by=LENA),
    "retry": lambda state: decide.retry_failed(state, by=LENA),
    "change": lambda state: decide.change(state, {"failure_limit_percent": 50}, by=LENA),
    "cancel": lambda state: decide.cancel(state, reason="why", by=LENA),
}


@pytest.mark.parametrize("want", _PEOPLE)
@pytest.mark.parametrize("status", CampaignStatus)
def test_people_are_refused_or_understood_in_every_status_and_never_against_the_table(
    status: CampaignStatus, want: str
) -> None:
    log = Log(parts=1)
    log.state.status = status.value
    log.state.parts["r1"].state = PartState.FAILED.value
    try:
        drafts = _PEOPLE[want](log.state)
    except NotAllowedNow:
        assert (
            status in (*CAMPAIGN_FINAL, CampaignStatus.CANCELLING, CampaignStatus.RUNNING) or want == "resume"
        )
        return
    assert all(campaign_target(draft.event, status) for draft in drafts)


def test_nothing_leaves_a_final_status() -> None:
    assert not [row for row in CAMPAIGN_ROWS if set(row.sources) & CAMPAIGN_FINAL]


def test_fixed_limits_cannot_be_changed() -> None:
    log = Log(parts=3)
    with pytest.raises(Invalid) as refused:
        decide.change(log.state, {"first_wave": 2}, by=LENA)
    assert "first_wave" in refused.value.errors


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"first_wave": 0}, "first_wave"),
        ({"first_wave": True}, "first_wave"),
        ({"growth": "2"}, "growth"),
        ({"failure_limit_percent": 101}, "failure_limit_percent"),
        ({"pull_requests_per_hour": 0}, "pull_requests_per_hour"),
        ({"max_cost_usd": "-1"}, "max_cost_usd"),
        ({"max_cost_usd": "1.99"}, "max_cost_usd"),
        ({"completion": "some day"}, "completion"),
    ],
)
def test_each_wrong_limit_is_named(limits: Json, field: str) -> None:
    contract = {"completion_mode": "pr_created", "budget": {"max_cost_usd": "2"}}
    assert list(check_limits(with_defaults(limits), contract)) == [field]


def test_a_cap_needs_to_know_what_one_task_may_cost() -> None:
    limits = with_defaults({"max_cost_usd": "50"})
    assert "max_cost_usd" in check_limits(limits, {"completion_mode": "pr_created", "budget": {}})


def test_merges_are_waited_for_only_where_there_are_pull_requests() -> None:
    limits = with_defaults({"completion": "pull_requests_merged"})
    contract = {"completion_mode": "analysis_report_created", "budget": {}}
    assert "completion" in check_limits(limits, contract)


def test_a_long_selection_is_read_at_once_and_has_a_bounded_number_of_patterns() -> None:
    known = [f"acme/service-{number:04}" for number in range(2_000)]
    begun = time.process_time()
    assert select(list(reversed(known)), known).names == tuple(reversed(known))
    lines = [f"acme/service-{number:02}*" for number in range(MOST_PATTERNS)]
    assert check_selection(lines) is None
    assert len(select(lines, known).names) == 2_000
    assert time.process_time() - begun < 2
    assert "patterns" in (check_selection([*lines, "more-*"]) or "")


def test_a_selection_is_names_and_patterns_in_their_order_without_those_taken_away() -> None:
    known = ["team-b", "team-a", "team-old", "billing", "other"]
    found = select(["billing", "team-*", "!*-old", "gone", "bill*"], known)
    assert found.names == ("billing", "team-a", "team-b")
    assert found.unmatched == ("gone",)
