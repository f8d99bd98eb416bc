"""The audit log: every administrative act, with how it was before and after."""

from __future__ import annotations

import json
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.utils.crypto import salted_hmac

from runs.domain.commands import Caller
from runs.domain.facts import Json
from runs.domain.secrets import mask
from runs.models import AuditEntry
from runs.models.audit import Act

#: Acts of somebody with a shell on the server, whom the product does not know by name.
COMMAND_LINE: Final = Caller("", "command line", frozenset())
#: Fields that would open something: the log shows that they changed, and never what they hold.
_SECRET: Final = frozenset({"password", "secret_sha256", "session_key", "session_data"})


def audit_record(
    *,
    by: Caller,
    act: Act,
    row: Model,
    before: Json | None = None,
    after: Json | None = None,
    note: str = "",
    reason: str = "",
) -> AuditEntry:
    """Write one act down, in the caller's transaction. Of ``before`` and ``after`` the difference is kept."""
    entry = audit_entry(by=by, act=act, row=row, before=before, after=after, note=note, reason=reason)
    entry.save(force_insert=True)
    return entry


def audit_entry(
    *,
    by: Caller,
    act: Act,
    row: Model,
    before: Json | None = None,
    after: Json | None = None,
    note: str = "",
    reason: str = "",
) -> AuditEntry:
    """The entry of one act, not yet written: whoever does many writes them together."""
    was, became = before or {}, after or {}
    if act is Act.CHANGED:
        differ = {name for name in was.keys() | became.keys() if was.get(name) != became.get(name)}
        was, became = ({n: v for n, v in side.items() if n in differ} for side in (was, became))
    return AuditEntry(
        by=by.name[:200],
        by_id=by.account,
        act=act.value,
        kind=kind_of(row),
        target_id=str(row.pk)[:200],
        target=mask(str(row))[:300],
        note=note,
        reason=mask(reason.strip())[:2_000],
        before=was,
        after=became,
    )


def kind_of(row: Model | type[Model]) -> str:
    """What the log calls this kind of thing: ``worker account``."""
    return str(row._meta.verbose_name)  # noqa: SLF001  Django's documented name for it


def snapshot(row: Model, *, parts: tuple[str, ...] = ()) -> Json:
    """How a row is now, as JSON: its columns, what it is linked to, and ``parts``, rows that belong to it.

    One query for each many-to-many relation and each part. Secrets are marks, texts are masked.
    """
    meta = row._meta  # noqa: SLF001  Django's documented way to a model's fields
    found: Json = {field.name: _plain(field.name, row, field.attname) for field in meta.concrete_fields}
    for relation in meta.many_to_many:
        found[relation.name] = sorted(str(one) for one in getattr(row, relation.name).all())
    for part in parts:
        found[part] = sorted(str(one) for one in getattr(row, part).all())
    return found


def _plain(name: str, row: Model, attribute: str) -> Any:
    secrets = _SECRET | frozenset(getattr(row, "SECRET_FIELDS", ()))
    value = getattr(row, attribute)
    if name in secrets:
        return _mark(str(value)) if value else ""
    plain = json.loads(json.dumps(value, cls=DjangoJSONEncoder))
    return mask(plain) if isinstance(plain, str) else plain


def _mark(secret: str) -> str:
    """Tells two secrets apart and neither of them: keyed, so that guesses cannot be tried against it."""
    return f"•••• {salted_hmac('agentplatform.audit', secret, algorithm='sha256').hexdigest()[:8]}"
