"""Repositories brought in many at once, and kept in step: one transaction, a fixed number of statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from agentplatform.clock import database_now
from runs import store
from runs.domain.commands import Caller
from runs.domain.errors import Invalid
from runs.domain.facts import Json
from runs.domain.importing import Change, Known, Listed, Plan, plan_import, said_of
from runs.domain.places import place_of
from runs.models import AuditEntry, Organisation, Policy, PolicyVersion, Repository
from runs.models.audit import Act
from runs.service.accounts import own_policy_names, policy_above, wrong_address
from runs.service.audit import audit_entry, audit_record, snapshot

DEFAULT_BRANCH: Final = "main"
#: How often an organisation that is kept in step is looked at.
LOOK_AGAIN: Final = timedelta(hours=1)


def repositories_import(
    *,
    listed: Iterable[Listed],
    by: Caller,
    source: str,
    inherits: str = Policy.PLATFORM,
    dry_run: bool = False,
) -> Plan:
    """Make those that are new, bring the known ones into step, and say what was done and what was refused.

    New ones get a policy of their own below ``inherits``. ``source`` is named in the audit log. With
    ``dry_run`` nothing is written. What is in step costs no statement. Raises ``Invalid``.
    """
    with transaction.atomic():
        store.lock_imports()
        plan = _plan(list(listed))
        if dry_run:
            return plan
        entries: list[AuditEntry] = []
        note = f"Imported from {source}."
        # First those that are known: a name that one of them gives up may be a new one's.
        if plan.changed:
            entries += _bring_in_step(plan.changed, by=by, note=note)
        if plan.new:
            entries += _add(plan.new, by=by, note=note, inherits=inherits)
        if entries:
            AuditEntry.objects.bulk_create(entries)
    return plan


def _plan(listed: Sequence[Listed]) -> Plan:
    wrong = {one: wrong_address(one.url, one.provider) for one in listed}
    plan = plan_import([one for one in listed if not wrong[one]], _known())
    said = [(one.name, f"its {name} {texts[0]}") for one in listed for name, texts in wrong[one].items()]
    plan.refused = [*said, *plan.refused]
    return plan


def _known() -> list[Known]:
    """All that are here. One query."""
    return [
        Known(
            id=row.pk,
            name=row.name,
            url=row.url,
            base_branch=row.base_branch,
            archived=row.archived_at is not None,
            key=row.forge_key,
            place=place_of(row.url),
            said=row.forge_says,
        )
        for row in Repository.objects.all()
    ]


def _add(new: Sequence[Listed], *, by: Caller, note: str, inherits: str) -> list[AuditEntry]:
    above = policy_above(inherits)
    if above is None:
        raise Invalid({"inherits": [f"there is no policy {inherits}"]})
    names, now = own_policy_names([one.name for one in new]), database_now()
    own = Policy.objects.bulk_create(Policy(name=names[one.name], inherits=above) for one in new)
    PolicyVersion.objects.bulk_create(
        PolicyVersion(policy=policy, number=1, values={}, changed_by=by.name) for policy in own
    )
    rows = [_row(one, policy, now) for one, policy in zip(new, own, strict=True)]
    Repository.objects.bulk_create(rows)
    return [audit_entry(by=by, act=Act.ADDED, row=row, after=snapshot(row), note=note) for row in rows]


def _row(one: Listed, policy: Policy, now: datetime) -> Repository:
    return Repository(
        name=one.name,
        url=one.url,
        provider=one.provider,
        base_branch=one.base_branch or DEFAULT_BRANCH,
        policy=policy,
        archived_at=now if one.archived else None,
        forge_key=one.key,
        forge_says={"base_branch": DEFAULT_BRANCH, **said_of(one)},
    )


def _bring_in_step(changed: Sequence[Change], *, by: Caller, note: str) -> list[AuditEntry]:
    rows = store.lock_repositories([change.known.id for change in changed])
    _free_names(changed)
    now, entries = database_now(), []
    for change in changed:
        row = rows[change.known.id]
        before, moved = snapshot(row), _moved(row, change)
        # Where somebody was quicker than this look at the forge, theirs stands.
        left = {name: value for name, value in change.fields.items() if name not in moved}
        _change(row, replace(change, fields=left), now)
        after = snapshot(row)
        entries.append(audit_entry(by=by, act=Act.CHANGED, row=row, before=before, after=after, note=note))
    fields = ["name", "url", "base_branch", "archived_at", "forge_key", "forge_says"]
    Repository.objects.bulk_update(rows.values(), fields, batch_size=500)
    return entries


def _moved(row: Repository, change: Change) -> set[str]:
    """What of the planned fields is another now than when it was planned."""
    known = change.known
    was = {"name": known.name, "url": known.url, "base_branch": known.base_branch, "archived": known.archived}
    now = {name: getattr(row, name) for name in was if name != "archived"}
    now["archived"] = row.archived_at is not None
    return {name for name in was if was[name] != now[name]}


def _change(row: Repository, change: Change, now: datetime) -> None:
    fields: Json = {name: value for name, value in change.fields.items() if name != "archived"}
    if "archived" in change.fields:
        fields["archived_at"] = now if change.fields["archived"] else None
    for name, value in fields.items():
        setattr(row, name, value)
    row.forge_key = row.forge_key or change.listed.key
    row.forge_says = change.said


def _free_names(changed: Sequence[Change]) -> None:
    """Names that pass from one repository to another are free before they are taken: each is unique at
    every moment."""
    held = {change.known.name: change.known.id for change in changed if "name" in change.fields}
    for change in changed:
        if change.fields.get("name") in held:
            holder = held[change.fields["name"]]
            Repository.objects.filter(pk=holder).update(name=f"~{holder}")


@transaction.atomic
def organisation_keep(*, organisation: Organisation, by: Caller) -> Organisation:
    """Keep this organisation in step from now on; one that is kept already is kept as it is said now."""
    same = {name: getattr(organisation, name) for name in ("provider", "host", "path")}
    known = Organisation.objects.filter(**same).first()
    before = snapshot(known) if known else {}
    kept = known or organisation
    for name in ("prefix", "only", "inherits"):
        setattr(kept, name, getattr(organisation, name))
    kept.kept, kept.next_look_at = True, database_now() + LOOK_AGAIN
    kept.save()
    act = Act.CHANGED if known else Act.ADDED
    audit_record(by=by, act=act, row=kept, before=before, after=snapshot(kept))
    return kept
