"""Repositories with the policy in force, and where each value of it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final
from urllib.parse import urlencode

from django.db.models import Count, Q, QuerySet
from django.urls import reverse

from runs.auth import Action, Principal, may, visible_repositories
from runs.domain.display import Display
from runs.domain.errors import NotFound
from runs.domain.facts import Json
from runs.domain.origins import Origin, origins_of, sentence_of
from runs.domain.places import without_login
from runs.domain.policy import Effective
from runs.domain.vocabulary import ACTIVE
from runs.models import Repository, Run
from runs.selectors import filters
from runs.selectors.policies import effective_policies
from runs.selectors.runs import run_rows, visible_runs, visible_surroundings
from runs.selectors.words import brief_id, when

PAGE: Final = 100
RECENT_RUNS: Final = 10
ARCHIVED: Final = "archived"
_VIEWS: Final[tuple[tuple[str, Json], ...]] = (
    ("In use", {}),
    (Display.ARCHIVED.label, {"show": ARCHIVED}),
)


# --- the list -------------------------------------------------------------------------------------


def repository_list(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """``{rows, filters, views, pager, empty}`` of /repositories/. Three queries, whatever their number.

    ``params``: q (part of a name), show ("archived"), after (the name that the page before ended with).
    """
    archived = params.get("show") == ARCHIVED
    rows = _visible(principal).filter(archived_at__isnull=not archived)
    wanted, after = (params.get(name, "").replace("\x00", "").strip() for name in ("q", "after"))
    if wanted:
        rows = rows.filter(name__icontains=wanted)
    found = list(rows.filter(name__gt=after).order_by("name")[: PAGE + 1])
    found, more = found[:PAGE], len(found) > PAGE
    form = filters.filter_form(params, (), search="Name", linked=("show",), said=lambda *_: "archived ones")
    hint = "An admin adds one by name and git address, or brings in a whole organisation."
    return {
        "rows": _rows(found),
        "filters": form,
        "views": filters.views_of(_VIEWS, {name: v for name, v in params.items() if name != "after"}),
        "pager": {"next": _after(params, found[-1].name) if more else "", "next_label": "More"},
        "empty": filters.empty_list(form, title="No repository", hint=hint),
    }


def _after(params: Mapping[str, str], name: str) -> str:
    return "?" + urlencode({**{key: value for key, value in params.items() if value}, "after": name})


def _visible(principal: Principal) -> QuerySet[Repository]:
    ids = visible_repositories(principal)
    return Repository.objects.all() if ids is None else Repository.objects.filter(pk__in=ids)


def _rows(found: Iterable[Repository]) -> list[Json]:
    rows = list(found)
    counts = dict(
        Run.objects.filter(repository__in=[row.pk for row in rows], status__in=[s.value for s in ACTIVE])
        .values_list("repository_id")
        .annotate(n=Count("pk"))
    )
    policies = effective_policies(repository_ids=[row.pk for row in rows])
    return [_repository(row, counts.get(row.pk, 0), policies[row.pk]) for row in rows]


def _repository(row: Repository, active: int, policy: Effective) -> Json:
    values = policy.values
    return {
        "name": row.name,
        "href": reverse("repository", args=[row.name]),
        "url": without_login(row.url),
        "branch": row.base_branch,
        "policy": ", ".join(level.name for level in reversed(policy.levels) if level.via != "inherited"),
        "active": f"{active:,}",
        "active_href": f"{reverse('runs')}?{urlencode({'repository': row.name})}",
        "auto_pr": "allowed" if values["allow_auto_pr"] else "always reviewed",
        "ceiling": values["risk_ceiling"],
        "archived": bool(row.archived_at),
    }


# --- one ------------------------------------------------------------------------------------------


def repository_page(*, principal: Principal, name: str) -> Json:
    """One repository: facts, the effective policy with where each value comes from, its newest runs.

    Ten queries. Raises ``NotFound`` for one that they may not see.
    """
    row = _visible(principal).select_related("policy").filter(Q(name=name) | Q(pk=name)).first()
    if row is None:
        raise NotFound
    policy = effective_policies(repository_ids=[row.pk])[row.pk]
    surroundings = visible_surroundings(principal)
    runs = visible_runs(principal).filter(repository=row).order_by("-created_at", "-pk")[:RECENT_RUNS]
    return {
        "name": row.name,
        "facts": _facts(row),
        "archived": _archived(row),
        "may_ask": not row.archived_at and may(principal, Action.TASK_CREATE, row.pk),
        "levels": [
            {
                "term": sentence_of(level),
                "text": f"version {level.number}" if level.number else "says nothing",
            }
            for level in policy.levels
        ],
        "policy": _fields(policy),
        "runs": run_rows(runs, principal=principal, surroundings=surroundings.for_rows(runs)),
        "runs_href": f"{reverse('runs')}?{urlencode({'repository': row.name})}",
    }


def _facts(row: Repository) -> list[Json]:
    return [
        {"term": "Address", "text": without_login(row.url), "mono": True},
        {"term": "Provider", "text": row.provider},
        {"term": "Base branch", "text": row.base_branch, "mono": True},
        {"term": "Policy", "text": row.policy.name},
        {"term": "Id", "text": brief_id(row.pk), "mono": True, "copy_text": row.pk},
    ]


def _archived(row: Repository) -> Json | None:
    """Since when and why it takes no tasks; None where it does."""
    if not row.archived_at:
        return None
    there = row.forge_says.get("archived")
    return {"when": when(row.archived_at), "why": f"Archived {'at the forge' if there else 'by an admin'}."}


# --- the policy in force --------------------------------------------------------------------------


def _fields(policy: Effective) -> list[Json]:
    """``[{name, lines: [{text, origin, built_in, overruled}]}]``, one for each field of a policy."""
    return [
        {"name": name.replace("_", " "), "lines": [line for one in found for line in _lines(one)]}
        for name, found in groupby(origins_of(policy), key=lambda one: one.name)
    ]


def _lines(one: Origin) -> list[Json]:
    """One value in words; a long list has a line for each of its parts, the origin beside the first."""
    shown = _words(one.value)
    entry = f"{one.entry.replace('_', ' ')}: " if one.entry else ""
    first = {
        "text": f"{entry}{shown[0]}",
        "origin": ", ".join(sentence_of(level) for level in one.given_by) or "built-in",
        "built_in": not one.given_by,
        "overruled": [f"{sentence_of(level)} says {_words(said)[0]}" for level, said in one.overruled],
    }
    return [first, *({"text": text} for text in shown[1:])]


def _words(value: object) -> list[str]:
    if value == {}:
        return ["none"]
    if isinstance(value, list):
        flat = [", ".join(part) if isinstance(part, list) else str(part) for part in value]
        return flat or ["none"]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return ["no limit" if value is None else str(value)]
