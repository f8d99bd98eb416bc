"""Who gets in: leaving ends it at once, and the right to administer follows from the role alone."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction

from runs.domain.commands import Caller
from runs.domain.errors import NotAllowedNow
from runs.domain.vocabulary import PersonRole
from runs.models import Person, RoleGrant, Session
from runs.models.audit import Act
from runs.service.audit import audit_record, snapshot
from runs.service.tokens import tokens_revoke


@transaction.atomic
def person_leave(*, person: Person, by: Caller, reason: str = "") -> None:
    """End everything that lets somebody in who is inactive now: tokens, for good, and sessions.

    What was asked of them is asked of others by the clock of approvals. Raises ``NotAllowedNow`` for the
    last one who may administer.
    """
    _keep_an_admin()
    tokens_revoke(tokens=person.tokens.filter(revoked_at=None), by=by, reason=reason)
    sessions_end(sessions=person.sessions.all(), by=by, reason=reason)


@transaction.atomic
def access_settle(*, person: Person) -> None:
    """Let Django admin follow the role of an admin everywhere. Raises ``NotAllowedNow`` for the last one."""
    everywhere = RoleGrant.objects.filter(person=person, role=PersonRole.ADMIN, repository=None)
    person.is_staff = person.is_superuser = everywhere.exists()
    person.save(update_fields=["is_staff", "is_superuser"])
    _keep_an_admin()


def _keep_an_admin() -> None:
    if not Person.objects.filter(is_superuser=True, is_active=True).exists():
        raise NotAllowedNow(
            "Nobody would be left who may administer this; give somebody else the role first."
        )


@transaction.atomic
def sessions_end(*, sessions: Iterable[Session], by: Caller, reason: str = "") -> int:
    """Sign these browsers out; how many."""
    ended = list(sessions)
    for session in ended:
        before = snapshot(session)
        audit_record(by=by, act=Act.DELETED, row=session, before=before, note="Signed out.", reason=reason)
        session.delete()
    return len(ended)
