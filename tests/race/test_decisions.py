"""Several people at once, on connections of their own: one wins, the others are told who."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from approvals.models import ApprovalRequest, Decision
from approvals.service import DecisionOutcome, approval_decide
from runs import auth, service
from runs.domain.errors import ApprovalClosed, ApprovalDecided, Refusal
from runs.domain.vocabulary import Ev, PersonRole, Risk, RunStatus
from runs.models import OutboxMessage, Run, RunEvent
from tests import factories as make
from tests.race.connections import at_once, behind

pytestmark = pytest.mark.django_db(transaction=True)

WAITING = RunStatus.WAITING_FOR_APPROVAL


def waiting(**fields: Any) -> tuple[str, ApprovalRequest]:
    holder = make.run_in(WAITING, **fields)
    return holder.run_id, ApprovalRequest.objects.get(run_id=holder.run_id)


def reviewer(name: str) -> auth.Principal:
    return auth.of_person(make.person(PersonRole.REVIEWER, name=name))


def says(
    request: ApprovalRequest, by: auth.Principal, word: str = "approve", comment: str = "because"
) -> Callable[[], DecisionOutcome]:
    return lambda: approval_decide(
        approval_id=request.pk, decision=word, by=by, comment=comment,
        version=request.version, subject_sha256=request.subject_sha256,
    )  # fmt: skip


def moves(run_id: str) -> list[str]:
    """The people's and policy's moves out of the gate, in sequence."""
    left = RunEvent.objects.filter(run_id=run_id, from_status=WAITING).exclude(to_status=WAITING)
    return [event.event_type for event in left.order_by("sequence")]


def test_of_two_opposite_decisions_one_wins_and_the_loser_is_told():
    bob, carol = reviewer("bob"), reviewer("carol")
    for _ in range(5):
        run_id, request = waiting()
        results = at_once(says(request, bob), says(request, carol, "reject"))
        lost = [result for result in results if isinstance(result, Refusal)]
        assert len(lost) == 1
        winner = "bob" if results[1] is lost[0] else "carol"
        assert isinstance(lost[0], ApprovalDecided)
        assert lost[0].extra["decided_by"] == [winner]
        assert [said.by.username for said in Decision.objects.filter(request=request)] == [winner]
        assert moves(run_id) == ["approved" if winner == "bob" else "rejected"]


def test_the_loser_waits_for_the_winner_and_then_learns_who_it_was(owner_connection: psycopg.Connection):
    run_id, request = waiting()
    bob, carol = reviewer("bob"), reviewer("carol")
    _, told = behind(owner_connection, says(request, bob), says(request, carol, "reject"))
    assert isinstance(told, ApprovalDecided)
    assert told.extra["decided_by"] == ["bob"]
    assert moves(run_id) == ["approved"]


def test_approving_and_cancelling_at_once_leaves_one_story():
    bob, alice = reviewer("bob"), auth.of_person(make.person(PersonRole.OPERATOR, name="alice"))
    for _ in range(5):
        run_id, request = waiting()

        def cancel(run_id=run_id):
            return service.run_direct(
                run_id=run_id, event=Ev.CANCEL_REQUESTED, reason="obsolete", by=alice.caller
            )

        approved, _ = at_once(says(request, bob), cancel)
        closed = ApprovalRequest.objects.get(pk=request.pk)
        if isinstance(approved, Refusal):
            assert isinstance(approved, ApprovalClosed)
            assert approved.extra["closed_by"] == "alice"
            assert (closed.status, moves(run_id)) == ("cancelled", ["run_cancelled"])
        else:  # the cancel came second and stopped the pull request instead
            assert (closed.status, moves(run_id)) == ("approved", ["approved"])
        assert Run.objects.get(pk=run_id).status == RunStatus.CANCELLED


def test_a_double_click_is_one_decision_one_event_one_message(owner_connection: psycopg.Connection):
    run_id, request = waiting()
    bob = reviewer("bob")
    results = behind(owner_connection, *[says(request, bob)] * 4)
    assert [result.replayed for result in results] == [False, True, True, True]
    assert Decision.objects.filter(request=request).count() == 1
    assert moves(run_id) == ["approved"]
    assert OutboxMessage.objects.filter(stream=run_id, name="RunPrCreating").count() == 1


def test_two_votes_at_once_make_a_quorum_of_two(owner_connection: psycopg.Connection):
    where = make.repository(policy={"approvals": {risk.value: 2 for risk in Risk}})
    run_id, request = waiting(where=where)
    results = behind(owner_connection, says(request, reviewer("bob")), says(request, reviewer("carol")))
    assert [result.votes_missing for result in results] == [1, 0]
    assert moves(run_id) == ["approved"]


def test_two_accounts_of_one_person_at_once_are_one_vote(owner_connection: psycopg.Connection):
    where = make.repository(policy={"approvals": {risk.value: 2 for risk in Risk}})
    run_id, request = waiting(where=where)
    bob = reviewer("bob")
    twin = auth.of_person(make.person(PersonRole.REVIEWER, name="bob-two", same_person_as=bob.person))
    _, refused = behind(owner_connection, says(request, bob), says(request, twin))
    assert isinstance(refused, Refusal)
    assert moves(run_id) == []
    assert Decision.objects.filter(request=request).count() == 1
