"""The table against the contract's own words, transcribed by hand; and what reads it."""

from __future__ import annotations

import pytest

from runs.domain.table import (
    CLAIM_EVENTS,
    MOVES,
    PEOPLE_EVENTS,
    ROWS,
    allowed_events,
    cell,
    domain_event,
    edges,
    posting_roles,
    sources_of,
)
from runs.domain.vocabulary import (
    ACTIVE,
    CLAIMABLE,
    LEASED_STATUSES,
    MACHINE_ROLES,
    OWNER,
    TERMINAL,
    Ev,
    Role,
    RunStatus,
)

S, E = RunStatus, Ev

#: Lifecycle contract, 4.1: event → {from: to …}, once more and in another form than the table's.
MOVING: dict[Ev, dict[str, str]] = {
    E.RUN_ENQUEUED: {"CREATED": "QUEUED"},
    E.WORKER_STARTED: {"LEASED": "PREPARING"},
    E.CONTEXT_READY: {"CONTEXT_BUILDING": "PLANNING"},
    E.PLAN_CREATED: {"PLANNING": "EXECUTING PLANNING"},
    E.PATCH_CREATED: {"EXECUTING": "PATCH_READY"},
    E.REPORT_CREATED: {"EXECUTING": "JUDGING"},
    E.VERIFICATION_STARTED: {"PATCH_READY": "VERIFYING"},
    E.VERIFICATION_FAILED_RETRYABLE: {"VERIFYING": "EXECUTING"},
    E.VERIFICATION_PASSED: {"VERIFYING": "JUDGING"},
    E.JUDGE_PASSED: {"JUDGING": "JUDGING"},
    E.JUDGE_REQUIRES_FIX: {"JUDGING": "EXECUTING"},
    E.AUTO_PR_ALLOWED: {"JUDGING": "PR_CREATING"},
    E.PR_CREATED: {"PR_CREATING": "PR_CREATED"},
    E.PR_CREATION_FAILED: {"PR_CREATING": "PR_CREATING"},
    E.COMPLETION_CONDITION_MET: {"PR_CREATED": "SUCCEEDED", "JUDGING": "SUCCEEDED"},
    E.HUMAN_APPROVAL_REQUIRED: dict.fromkeys(
        ("PLANNING", "EXECUTING", "PATCH_READY", "VERIFYING", "JUDGING"), "WAITING_FOR_APPROVAL"
    ),
    E.APPROVED: {"WAITING_FOR_APPROVAL": "EXECUTING PR_CREATING PLANNING PATCH_READY VERIFYING JUDGING"},
    E.CHANGES_REQUESTED: {"WAITING_FOR_APPROVAL": "PLANNING EXECUTING"},
    E.REJECTED: {"WAITING_FOR_APPROVAL": "FAILED PLANNING EXECUTING"},
    E.RUN_CANCELLED: {s: "CANCELLED" for s in ACTIVE if s != S.PR_CREATED},
    E.NON_RETRYABLE_FAILURE: dict.fromkeys(ACTIVE, "FAILED"),
}


@pytest.mark.parametrize("event", list(MOVING))
def test_the_table_says_what_the_contract_says(event: Ev):
    found: dict[str, set[str]] = {}
    for ev, source, target in edges():
        if ev is event:
            found.setdefault(source.value, set()).add(target.value)
    assert found == {str(a): set(b.split()) for a, b in MOVING[event].items()}


def test_every_event_but_the_first_has_a_row():
    assert {row.event for row in ROWS} == set(Ev) - {E.RUN_CREATED}


def test_nothing_leaves_a_final_status():
    assert not [edge for edge in edges() if edge[1] in TERMINAL and edge[2] is not edge[1]]
    assert not [move for move in MOVES if move[0] in TERMINAL]


def test_every_status_is_reached_and_every_active_one_is_left():
    assert {b for _, b in MOVES} == set(RunStatus) - {S.CREATED}
    assert {a for a, _ in MOVES} == set(ACTIVE)


@pytest.mark.parametrize("status", list(RunStatus))
def test_every_active_status_can_end_badly(status: RunStatus):
    assert (cell(E.NON_RETRYABLE_FAILURE, status) is None) == (status in TERMINAL)


def test_claimable_statuses_have_the_owner_of_the_contract():
    assert {status.value: role.value for status, role in CLAIMABLE.items()} == {
        "QUEUED": "worker",
        "PREPARING": "worker",
        "CONTEXT_BUILDING": "worker",
        "PLANNING": "agent_runtime",
        "EXECUTING": "agent_runtime",
        "PATCH_READY": "verifier",
        "VERIFYING": "verifier",
        "JUDGING": "judge",
        "PR_CREATING": "git_integration",
    }
    assert set(OWNER) == set(RunStatus)


def test_claims_make_what_only_claims_make():
    assert {E.LEASE_ACQUIRED} == CLAIM_EVENTS
    assert set(sources_of(E.LEASE_ACQUIRED)) == set(CLAIMABLE)


def test_no_machine_posts_what_people_say():
    assert not [event for event in PEOPLE_EVENTS if posting_roles(event) & set(MACHINE_ROLES)]
    for status in RunStatus:
        assert not set(allowed_events(status)) & (PEOPLE_EVENTS | CLAIM_EVENTS)


def test_a_failure_is_reported_by_the_owner_of_the_status():
    for status in LEASED_STATUSES:
        row = cell(E.NON_RETRYABLE_FAILURE, status)
        assert row is not None
        assert row.roles_in(status) & set(MACHINE_ROLES) == {OWNER[status]}
    row = cell(E.NON_RETRYABLE_FAILURE, S.WAITING_FOR_APPROVAL)
    assert row is not None
    assert row.roles_in(S.WAITING_FOR_APPROVAL) == {Role.CONTROL_PLANE, Role.POLICY}


def test_every_move_of_a_status_is_announced():
    for event, source, target in edges():
        if source is not target:
            assert domain_event(event, source, target), (event, source, target)
    assert domain_event(E.CANCEL_REQUESTED, S.EXECUTING, S.EXECUTING) == "RunCancelRequested"
    assert domain_event(E.NOTE_ADDED, S.FAILED, S.FAILED) == ""
    assert domain_event(E.APPROVED, S.WAITING_FOR_APPROVAL, S.PR_CREATING) == "RunPrCreating"


def test_one_cell_has_one_row():
    cells = [(row.event, source) for row in ROWS for source in row.sources]
    assert len(cells) == len(set(cells))
