"""API tokens: made, renewed and revoked here (REST contract, "Who calls")."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from agentplatform.clock import database_now
from runs.domain.commands import Caller
from runs.domain.errors import Invalid, NotAllowedNow
from runs.domain.vocabulary import PersonRole
from runs.models import ApiToken, Person, WorkerAccount
from runs.models.audit import Act
from runs.service.audit import audit_record, snapshot

#: How long a renewed token goes on working beside the new one, so that nobody is locked out meanwhile.
OVERLAP: Final = timedelta(days=1)


@transaction.atomic
def token_create(
    *,
    by: Caller,
    worker: WorkerAccount | None = None,
    person: Person | None = None,
    name: str = "",
    roles: Iterable[str] = (),
    expires_at: datetime | None = None,
    reason: str = "",
) -> tuple[ApiToken, str]:
    """A token and its secret of 256 bits, which is shown now and never again.

    ``roles`` are those of its owner's that it may use; none named: all. Raises ``Invalid``.
    """
    chosen = list(dict.fromkeys(roles))
    known = worker.roles if worker else [role.value for role in PersonRole]
    wrong: dict[str, list[str]] = {}
    if strange := [role for role in chosen if role not in known]:
        wrong["roles"] = [f"not among the owner's: {', '.join(strange)}"]
    if expires_at is not None and expires_at <= database_now():
        wrong["expires_at"] = ["must be in the future"]
    if wrong:
        raise Invalid(wrong)
    token = ApiToken(worker=worker, person=person, name=name, roles=chosen, expires_at=expires_at)
    secret = f"{token.pk}.{secrets.token_urlsafe(32)}"
    token.secret_sha256 = hashlib.sha256(secret.encode()).hexdigest()
    token.save()
    audit_record(by=by, act=Act.ADDED, row=token, after=snapshot(token), reason=reason)
    return token, secret


@transaction.atomic
def token_renew(*, token: ApiToken, by: Caller, reason: str = "") -> tuple[ApiToken, str]:
    """A new token in the place of this one, with the same roles and as long a life; this one ends after
    ``OVERLAP``, or when it would have anyway. Raises ``NotAllowedNow`` for one that is not in force."""
    now = database_now()
    if not token.is_in_force(now):
        raise NotAllowedNow("This token is not in force any more; make a new one.")
    life = token.expires_at - token.created_at if token.expires_at else None
    renewed = token_create(
        by=by,
        worker=token.worker,
        person=token.person,
        name=token.name,
        roles=token.roles,
        expires_at=now + life if life else None,
        reason=reason,
    )
    before = snapshot(token)
    token.expires_at = min(filter(None, (token.expires_at, now + OVERLAP)))
    token.save(update_fields=["expires_at"])
    note = f"Renewed by {renewed[0].pk}; works until it expires."
    audit_record(
        by=by, act=Act.CHANGED, row=token, before=before, after=snapshot(token), note=note, reason=reason
    )
    return renewed


@transaction.atomic
def tokens_revoke(*, tokens: Iterable[ApiToken], by: Caller, reason: str = "") -> int:
    """Stop them at once; how many still worked. Twice changes nothing."""
    now, count = database_now(), 0
    for token in tokens:
        before = snapshot(token)
        if ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            count += 1
            token.revoked_at = now
            after = snapshot(token)
            audit_record(
                by=by, act=Act.CHANGED, row=token, before=before, after=after, note="Revoked.", reason=reason
            )
    return count
