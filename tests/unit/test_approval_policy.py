"""Who may decide: by role, by person, by vote, by guard; each no comes with its reason."""

from __future__ import annotations

import pytest

from approvals.policy import CHANGEABLE, FOUR_EYES, Standing, Viewer, enough_people, missing_votes, rights
from runs.domain.vocabulary import Gate

REVIEWER = Viewer("carol", may_review=True, may_answer=True)
READER = Viewer("vic")
AUTHORS = {"carol": ["asked for this task", "own the agent's account eu-3"]}


@pytest.mark.parametrize("gate", list(Gate))
def test_a_reviewer_may_decide_at_every_gate(gate):
    found = rights(REVIEWER, Standing(gate))
    assert (found.may_decide, found.approve, found.reject) == (True, True, True)
    assert found.request_changes is (gate in CHANGEABLE)
    assert found.because == found.why_not == ""


@pytest.mark.parametrize("gate", list(Gate))
def test_a_reader_may_only_look_and_is_told_why(gate):
    found = rights(READER, Standing(gate))
    assert (found.may_decide, found.approve, found.request_changes, found.reject) == (False,) * 4
    assert found.because.startswith("Only a ")


def test_a_submitter_may_answer_and_nothing_else():
    submitter = Viewer("alice", may_answer=True)
    assert rights(submitter, Standing(Gate.QUESTION)).approve
    assert not rights(submitter, Standing(Gate.PATCH)).may_decide


@pytest.mark.parametrize("gate", sorted(FOUR_EYES))
def test_an_author_cannot_approve_but_may_turn_it_down(gate):
    found = rights(REVIEWER, Standing(gate, authors=AUTHORS))
    assert (found.may_decide, found.approve, found.reject) == (False, False, True)
    assert found.because == (
        "You asked for this task and own the agent's account eu-3: somebody else has to approve."
    )


def test_the_author_of_a_task_answers_its_questions():
    assert rights(REVIEWER, Standing(Gate.QUESTION, authors=AUTHORS)).approve


def test_an_override_opens_approve_and_says_on_what_it_rests():
    found = rights(REVIEWER, Standing(Gate.PATCH, authors=AUTHORS, override=True))
    assert (found.may_decide, found.approve, found.needs_override) == (False, True, True)
    assert "override" in found.why_not


def test_an_override_does_not_pass_a_blocking_guard():
    found = rights(REVIEWER, Standing(Gate.PATCH, authors=AUTHORS, override=True, blocking=["Paths"]))
    assert not found.approve
    assert found.why_not == "Approve is off: Paths does not pass and nobody has waived it."


def test_a_blocking_guard_leaves_the_other_ways_open():
    found = rights(REVIEWER, Standing(Gate.PATCH, blocking=["Secrets", "Paths"]))
    assert (found.may_decide, found.approve, found.request_changes, found.reject) == (True, False, True, True)
    assert found.why_not == "Approve is off: Secrets, Paths do not pass and nobody has waived it."


def test_nobody_votes_twice():
    found = rights(REVIEWER, Standing(Gate.PATCH, needed=3, voted=["carol"]))
    assert not found.may_decide
    assert found.because == "You have approved this already; 2 more people must."


def test_what_is_closed_is_closed_for_all():
    found = rights(REVIEWER, Standing(Gate.PATCH, closed="bob approved this."))
    assert (found.may_decide, found.reject, found.because) == (False, False, "bob approved this.")


def test_the_warning_comes_before_it_is_too_late_and_only_then():
    assert "cannot approve" in rights(REVIEWER, Standing(Gate.PATCH)).warning
    assert rights(REVIEWER, Standing(Gate.PATCH, authors=AUTHORS)).warning == ""
    assert rights(REVIEWER, Standing(Gate.TOOL_CALL)).warning == ""


def test_votes_are_counted_by_person():
    assert missing_votes(Standing(Gate.PATCH, needed=2, voted=["a", "a"])) == 1
    assert missing_votes(Standing(Gate.PATCH, needed=1, voted=["a", "b"])) == 0


@pytest.mark.parametrize(
    ("deciders", "options", "enough"),
    [
        ({"bob"}, {}, True),
        (set(), {}, False),
        ({"carol"}, {"authors": AUTHORS}, False),
        ({"carol"}, {"authors": AUTHORS, "override": True}, True),
        ({"carol", "bob"}, {"authors": AUTHORS, "needed": 2}, False),
        ({"dave", "bob"}, {"needed": 2, "voted": ["bob"]}, True),
        ({"bob"}, {"needed": 2, "voted": ["bob"]}, False),
    ],
)
def test_a_quorum_that_nobody_can_make_up_is_noticed(deciders, options, enough):
    assert enough_people(Standing(Gate.PATCH, **options), deciders) is enough
