"""Who is asked about a request: owners, groups, CODEOWNERS at the base, those who stand in for them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentplatform.clock import database_now
from approvals.asking.assign import approval_assign, approval_snooze
from approvals.asking.clock import tick
from approvals.models import Absence, ApprovalRequest, Handle, Notice, RepositoryOwner, Team
from approvals.policy import Rights
from approvals.selectors import ids_in_turn, read_entries
from runs import auth, outbox
from runs.domain.errors import ApprovalForbidden, Invalid, PermissionDenied
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Person
from tests import factories as make
from tests.asking import asked, asked_request, away, causes, fresh, later, own, reviewers, told
from tests.deciding import decide, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def where():
    return make.repository()


def rights(request: ApprovalRequest, person: Person) -> Rights:
    return read_entries([fresh(request)], auth.of_person(person))[0].rights


def in_turn(request: ApprovalRequest, *people: Person) -> list[bool]:
    return [request.pk in ids_in_turn(auth.of_person(person)) for person in people]


def test_without_owners_everybody_who_may_decide_is_asked_once(where):
    ann, bob = reviewers(where, "ann", "bob")
    stranger = make.person(PersonRole.REVIEWER, repository=make.repository())
    request = asked_request(where)
    assert told(request.pk) >= {ann.username, bob.username}
    assert stranger.username not in told(request.pk)
    assert request.task.created_by.username not in told(request.pk)
    assert in_turn(request, ann, bob) == [True, True]


def test_an_owner_is_asked_and_the_others_only_may(where):
    ann, bob = reviewers(where, "ann", "bob")
    own(where, ann)
    request = asked_request(where)
    assert (asked(request), told(request.pk)) == ({ann.username}, {ann.username})
    assert in_turn(request, ann, bob) == [True, False]
    assert rights(request, bob).approve
    assert decide(request, bob).run


def test_a_team_is_asked_as_its_members_and_gives_them_no_right(where):
    ann, bob = reviewers(where, "ann", "bob")
    outsider = make.person(PersonRole.VIEWER, repository=where)
    team = Team.objects.create(name=f"team of {where.name}")
    team.members.set([ann, bob, outsider])
    RepositoryOwner.objects.create(repository=where, team=team)
    request = asked_request(where)
    assert asked(request) == {ann.username, bob.username}
    with pytest.raises(ApprovalForbidden):
        decide(request, outsider)


def with_code_owners(tmp_path, text: str, **fields):
    """A repository whose base has this CODEOWNERS, its origin, and a patch of ``clock.py``."""
    origin = make.make_origin(tmp_path)
    checkout = tmp_path / "checkout"
    (checkout / "CODEOWNERS").write_text(text)
    make._git("add", ".", at=checkout)
    make._git("commit", "--quiet", "--message=Say who owns what", at=checkout)
    make._git("push", "--quiet", str(origin.path), "main", at=checkout)
    commit = make._git("rev-parse", "HEAD", at=checkout).decode().strip()
    return make.repository(url=origin.url, **fields), make.Origin(origin.path, commit, origin.patch)


def test_code_owners_at_the_base_are_asked_each_with_the_pattern(tmp_path):
    code = "* @everyone\n*.py @Ann @backend who@example.org @stranger\n"
    where, origin = with_code_owners(tmp_path, code)
    ann, bob, cho, dan = reviewers(where, "ann", "bob", "cho", "dan")
    Handle.objects.create(text="@ann", person=ann)
    team = Team.objects.create(name=f"backend of {where.name}")
    team.members.add(bob)
    Handle.objects.create(text="@backend", team=team)
    Person.objects.filter(pk=cho.pk).update(email="who@example.org")
    own(where, dan)
    holder = make.claim(make.worker(), make.queued_run(where))
    holder.base_commit, holder.patch = origin.commit, origin.patch
    make.drive(holder, RunStatus.WAITING_FOR_APPROVAL)
    outbox.relay()
    request = ApprovalRequest.objects.get(run_id=holder.run_id)
    assert asked(request) == {ann.username, bob.username, cho.username}
    why = Notice.objects.get(subject=request.pk, person=ann).why
    assert why == f"CODEOWNERS at {origin.commit[:10]} names you for *.py."
    assert "your team backend" in Notice.objects.get(subject=request.pk, person=bob).why
    assert request.owners["unknown"] == ["@stranger"]


def test_a_repository_that_cannot_be_read_has_its_own_owners_asked(where, settings, tmp_path):
    (ann,) = reviewers(where, "ann")
    own(where, ann)
    _, request = waiting(where=where)
    settings.MIRROR_DIR = tmp_path
    type(where).objects.filter(pk=where.pk).update(url="file:///nowhere/at.git")
    outbox.relay()
    assert asked(request) == {ann.username}


def test_who_asked_for_the_work_is_never_asked_to_approve_it(where):
    ann, bob = reviewers(where, "ann", "bob")
    own(where, ann, bob)
    assert asked(asked_request(where, by=ann)) == {bob.username}


# --- absences --------------------------------------------------------------------------------------


def test_who_stands_in_is_asked_by_their_own_rights(where):
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann)
    away(ann, bob)
    request = asked_request(where)
    assert told(request.pk) == {bob.username}
    assert in_turn(request, ann, bob, cho) == [False, True, False]
    assert "stand in for" in Notice.objects.get(subject=request.pk, person=bob).why


def test_who_stands_in_for_several_is_asked_once(where):
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann, bob)
    away(ann, cho)
    away(bob, cho)
    request = asked_request(where)
    assert told(request.pk) == {cho.username}
    assert in_turn(request, cho) == [True]


def test_an_assignment_before_the_owners_were_found_stands(where):
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann)
    _, request = waiting(where=where)
    approval_assign(approval_id=request.pk, to=bob.username, by=auth.of_person(cho))
    outbox.relay()
    assert asked(request) == {bob.username}
    assert in_turn(request, ann, bob) == [False, True]


def test_standing_in_gives_no_right_and_no_second_vote(where):
    viewer = make.person(PersonRole.VIEWER, repository=where)
    ann, bob = reviewers(where, "ann", "bob")
    own(where, ann)
    away(ann, viewer)
    request = asked_request(where)
    assert told(request.pk) == {bob.username}
    with pytest.raises(ApprovalForbidden):
        decide(request, viewer)


def test_who_stands_in_has_one_vote_however_many_they_stand_in_for():
    where = make.repository(policy={"approvals": {"low": 2}})
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann, bob)
    away(ann, bob)
    request = asked_request(where)
    decide(request, bob)
    again = decide(request, bob)
    assert (again.replayed, again.votes_missing, fresh(request).status) == (True, 1, "open")
    assert in_turn(request, bob, cho) == [False, True]


def test_the_author_cannot_stand_in_for_whoever_would_approve(where):
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann)
    away(ann, bob)
    request = asked_request(where, by=bob)
    assert told(request.pk) == {cho.username}


def test_a_chain_of_absences_ends_with_somebody_who_is_here_and_a_circle_with_everybody(where):
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann)
    away(ann, bob)
    second = away(bob, cho)
    assert told(asked_request(where).pk) == {cho.username}
    Absence.objects.filter(pk=second.pk).update(stand_in=ann)
    assert told(asked_request(where).pk) == {cho.username}


def test_when_an_absence_begins_what_was_asked_is_handed_over_once(where):
    ann, bob = reviewers(where, "ann", "bob")
    own(where, ann)
    request = asked_request(where)
    away(ann, bob)
    assert [swept.event for swept in tick()] == ["handed over"]
    assert tick() == []
    assert in_turn(request, ann, bob) == [False, True]
    assert told(request.pk) == {ann.username, bob.username}


# --- assign and snooze -----------------------------------------------------------------------------


def test_an_assignment_makes_it_one_persons_turn_until_it_is_given_back(where):
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann)
    request = asked_request(where)
    by = auth.of_person(cho)
    approval_assign(approval_id=request.pk, to=bob.username, by=by)
    assert in_turn(request, ann, bob) == [False, True]
    assert Notice.objects.get(subject=request.pk, person=bob).why == f"{cho.username} assigned it to you."
    assert told(request.pk, settled_at=None) == {bob.username}
    approval_assign(approval_id=request.pk, to="", by=by)
    assert in_turn(request, ann, bob) == [True, False]


def test_nobody_is_assigned_who_may_not_decide(where):
    ann, bob = reviewers(where, "ann", "bob")
    viewer = make.person(PersonRole.VIEWER, repository=where)
    request = asked_request(where, by=bob)
    for name in (viewer.username, bob.username, "nobody-at-all"):
        with pytest.raises(Invalid) as refused:
            approval_assign(approval_id=request.pk, to=name, by=auth.of_person(ann))
        assert list(refused.value.errors) == ["to"]
    with pytest.raises(PermissionDenied):
        approval_assign(approval_id=request.pk, to=ann.username, by=auth.of_person(viewer))


def test_a_snooze_puts_the_reminder_off_and_stops_no_clock(where):
    ann, bob = reviewers(where, "ann", "bob")
    request, other = asked_request(where), asked_request(where)
    now = database_now()
    approval_snooze(approval_id=request.pk, until=now + timedelta(hours=40), by=auth.of_person(ann))
    assert ids_in_turn(auth.of_person(bob)) == [other.pk, request.pk]
    due = fresh(request).due_at
    assert due == request.due_at
    assert fresh(request).clock_at == now + timedelta(hours=40)
    for until in (now - timedelta(seconds=1), request.due_at, now + timedelta(days=40)):
        with pytest.raises(Invalid):
            approval_snooze(approval_id=request.pk, until=until, by=auth.of_person(ann))


# --- the clock -------------------------------------------------------------------------------------


def test_the_clock_reminds_once_then_escalates_once_however_often_it_ticks(where):
    ann, bob = reviewers(where, "ann", "bob")
    own(where, ann)
    request = asked_request(where)
    with later(request, 0.55):
        assert [[swept.event for swept in tick()] for _ in range(3)] == [["reminded"], [], []]
    assert causes(request.pk, ann) == ["asked", "reminder"]
    assert told(request.pk, settled_at=None) == {ann.username}
    with later(request, 0.85):
        assert [[swept.event for swept in tick()] for _ in range(3)] == [["escalated"], [], []]
    assert causes(request.pk, bob) == ["escalated"]
    assert in_turn(request, ann, bob) == [True, True]
    assert Notice.objects.filter(subject=request.pk, person=ann, settled_at=None).count() == 1
    assert fresh(request).status == "open"


def test_a_clock_that_stood_still_escalates_without_reminding_first(where):
    (ann,) = reviewers(where, "ann")
    request = asked_request(where)
    with later(request, 0.9):
        assert [swept.event for swept in tick()] == ["escalated"]
    assert causes(request.pk, ann) == ["asked", "escalated"]


def test_a_decision_stops_the_clock_and_settles_what_was_told(where):
    ann, bob = reviewers(where, "ann", "bob")
    request = asked_request(where)
    decide(request, ann)
    with later(request, 0.9):
        assert tick() == []
    assert (
        f"{ann.username} approved this" in Notice.objects.get(subject=request.pk, person=bob).settled_because
    )


def test_nobody_left_who_may_decide_is_told_to_those_who_can_change_that(where):
    admin = make.person(PersonRole.ADMIN, repository=where)
    request = asked_request(where, by=admin)
    notice = Notice.objects.get(subject=request.pk, person=admin)
    assert (notice.kind, notice.sentence[:14]) == ("blocked", "Nobody is left")


def test_a_quorum_that_too_few_are_left_for_is_told_to_those_who_can_change_that():
    where = make.repository(policy={"approvals": {"low": 2, "medium": 2}})
    (ann,) = reviewers(where, "ann")
    admin = make.person(PersonRole.ADMIN, repository=where)
    request = asked_request(where, by=admin)
    assert told(request.pk, kind="needs_review") == {ann.username}
    notice = Notice.objects.get(subject=request.pk, person=admin)
    assert (notice.kind, notice.sentence[:11]) == ("blocked", "Fewer peopl")
    with later(request, 0.6):
        assert [swept.event for swept in tick()] == ["reminded"]
    assert Notice.objects.filter(subject=request.pk, person=admin).count() == 2
    assert Notice.objects.filter(subject=request.pk, person=admin, settled_at=None).count() == 1


def test_whenever_somebody_leaves_those_who_stay_are_told_anew(where):
    ann, bob, cho = reviewers(where, "ann", "bob", "cho")
    own(where, ann, bob)
    request = asked_request(where)
    for leaver, unread in ((ann, {bob.username}), (bob, {cho.username})):
        Person.objects.filter(pk=leaver.pk).update(is_active=False)
        assert [swept.event for swept in tick()] == ["left to others"]
        assert told(request.pk, settled_at=None) == unread
    assert tick() == []
    Person.objects.filter(pk=cho.pk).update(is_active=False)
    dee, admin = reviewers(where, "dee")[0], make.person(PersonRole.ADMIN, repository=where)
    assigned = fresh(request)
    own(where, dee)
    approval_assign(approval_id=assigned.pk, to=dee.username, by=auth.of_person(admin))
    Person.objects.filter(pk=dee.pk).update(is_active=False)
    tick()
    assert told(request.pk, settled_at=None) == {admin.username}
