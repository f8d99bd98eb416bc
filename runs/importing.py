"""Organisations and groups of forges, whose repositories are brought in and kept in step.

Never in a request: the forge is asked first, with no transaction open, and what it lists is then laid over
what is known. A list that could not be had whole changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Final

import structlog
from django.conf import settings

from agentplatform.clock import database_now
from runs import service
from runs.credentials import CredentialsWrong, credential_for
from runs.credentials.access import ForgeAccess
from runs.domain.commands import CONTROL_PLANE, Caller
from runs.domain.errors import Refusal
from runs.domain.importing import Listed, Plan
from runs.forges.listing import list_organisation
from runs.forges.rest import ForgeFailed
from runs.models import Organisation, Policy
from runs.service.imports import LOOK_AGAIN

log = structlog.get_logger(__name__)

#: How soon an organisation is looked at again where nobody answered.
SOON: Final = timedelta(minutes=5)
#: Of one look, refusals that are told in words.
MOST_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look came to."""

    organisation: str
    said: str
    failed: bool = False


def import_organisation(organisation: Organisation, *, by: Caller, dry_run: bool = False) -> Plan:
    """Ask the forge, and lay what it lists over what is known. Raises ``ForgeFailed``, ``CredentialsWrong``
    and ``Invalid``; then nothing has changed."""
    return service.repositories_import(
        listed=_listed(organisation),
        by=by,
        source=str(organisation),
        inherits=organisation.inherits.name if organisation.inherits else Policy.PLATFORM,
        dry_run=dry_run,
    )


def _listed(organisation: Organisation) -> Iterable[Listed]:
    path = organisation.path.strip("/")
    # By the name with a slash at its end: the table that is written for its repositories holds for itself.
    credential = credential_for(f"{organisation.prefix}{path}/", settings.REPOSITORY_CREDENTIALS)
    access = ForgeAccess(organisation.provider, organisation.host, credential, owns=f"/orgs/{path}")
    for one in list_organisation(access, path):
        if fnmatchcase(one.name, organisation.only or "*"):
            yield replace(one, name=f"{organisation.prefix}{one.name}")


def import_due(limit: int = 5) -> list[Looked]:
    """Look at the organisations that are due, at most ``limit``, the longest overdue first."""
    due = Organisation.objects.filter(kept=True, next_look_at__lte=database_now())
    due = due.order_by("next_look_at", "pk")
    return [looked for pk in list(due.values_list("pk", flat=True)[:limit]) if (looked := _look(pk))]


def _look(pk: int) -> Looked | None:
    now = database_now()
    # Of two processes that look at once, one takes the row; one that dies leaves it for the next hour.
    mine = Organisation.objects.filter(pk=pk, next_look_at__lte=now).update(next_look_at=now + LOOK_AGAIN)
    if not mine:
        return None
    organisation = Organisation.objects.select_related("inherits").get(pk=pk)
    looked, again = _told(organisation)
    rows = Organisation.objects.filter(pk=pk)
    rows.update(looked_at=database_now(), found=looked.said)
    if again:
        rows.update(next_look_at=database_now() + again)
    return looked


def _told(organisation: Organisation) -> tuple[Looked, timedelta | None]:
    """What came of it, and after how long to ask again where that is sooner than usual."""
    name = str(organisation)
    try:
        plan = import_organisation(organisation, by=CONTROL_PLANE)
    except ForgeFailed as failed:
        log.warning("organisation_not_listed", organisation=name, why=str(failed))
        return Looked(name, f"Nothing was changed: {failed}", failed=True), SOON if failed.retryable else None
    except (CredentialsWrong, Refusal) as refused:
        log.warning("organisation_not_imported", organisation=name, why=str(refused))
        return Looked(name, f"Nothing was changed: {refused}", failed=True), None
    return Looked(name, in_words(plan)), None


def in_words(plan: Plan) -> str:
    """The summary, and of what was refused the first ones with the reason."""
    refused = [f"{name}: {why}." for name, why in plan.refused[:MOST_TOLD]]
    more = len(plan.refused) - MOST_TOLD
    return "\n".join([plan.summary, *refused, *([f"And {more} more."] if more > 0 else [])])
