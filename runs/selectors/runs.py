"""Lists of runs, as rows of ready strings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from runs.auth import Principal, visible_repositories
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.said import failure_words
from runs.domain.state import RunState
from runs.models import Repository, Run
from runs.selectors import filters
from runs.selectors.display import shown_run
from runs.selectors.links import page_href
from runs.selectors.paging import keyset_page
from runs.selectors.run_filters import FROM_LINKS, filtered_runs, narrowed, said_of
from runs.selectors.surroundings import Surroundings, read_surroundings
from runs.selectors.words import joined, lowered, money, risk_badge, when

#: Views that people come back to; each is an address, as any other that they bookmark.
_VIEWS: Final[tuple[tuple[str, Json], ...]] = (
    ("All", {}),
    ("In my repositories", {"mine": "1"}),
    ("Wait for a review", {"waiting_reason": "review"}),
    ("Nothing heard", {"quiet": "1"}),
    (Display.FAILED.label, {"display": Display.FAILED.value}),
)


def run_list(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """{rows, filters, pager, empty} of /runs/. Eight queries, whatever the number of runs.

    ``params``: those of ``run_filters``, and ``older`` or ``newer``.
    """
    choice = filters.repository_choice(principal)
    surroundings = visible_surroundings(principal)
    rows = filtered_runs(visible_runs(principal), params, principal=principal, surroundings=surroundings)
    found, pager = keyset_page(rows, params)
    choices = (filters.DISPLAY, filters.WAITING, choice, filters.FAILURE, filters.RUN_STATUS)
    form = filters.filter_form(params, choices, search="Search", linked=FROM_LINKS, said=said_of)
    hint = "A run is one try at a task. Queue a task and its first run appears here."
    action = {"label": "New task", "href": reverse("task_new")}
    return {
        "rows": run_rows(found, principal=principal, surroundings=surroundings.for_rows(found)),
        "filters": form,
        "views": filters.views_of(_VIEWS, params),
        "export": {"href": f"{reverse('runs_csv')}?{urlencode(narrowed(params))}", "text": "CSV"},
        "pager": pager,
        "empty": filters.empty_list(form, title="No run yet", hint=hint, action=action),
    }


def visible_runs(principal: Principal) -> QuerySet[Run]:
    """Runs that this person may see, with task and repository. No query by itself."""
    rows = Run.objects.select_related("task", "repository")
    ids = visible_repositories(principal)
    return rows if ids is None else rows.filter(repository_id__in=ids)


def visible_surroundings(principal: Principal) -> Surroundings:
    """The surroundings of all that this person may see. A query more than those of ``read_surroundings``."""
    ids = visible_repositories(principal)
    known = ids if ids is not None else Repository.objects.values_list("pk", flat=True)
    return read_surroundings(repository_ids=known)


def run_rows(runs: Iterable[Run], *, principal: Principal, surroundings: Surroundings) -> list[Json]:
    """Rows for runs/_row.html. One query where one stands at a gate, unless that was asked before."""
    return [run_row(run, principal=principal, surroundings=surroundings) for run in runs]


def run_row(run: Run, *, principal: Principal, surroundings: Surroundings) -> Json:
    """One row. No query."""
    state = RunState.from_json(run.state)
    shown = shown_run(run, principal=principal, surroundings=surroundings, hrefs=page_href)
    sentence, tone = row_sentence(shown, state)
    worker = f"worker {state.worker_name}" if state.holder else ""
    cost = money(run.cost_usd) if run.cost_usd else ""
    return {
        "id": run.pk,
        "href": reverse("run", args=[run.pk]),
        "title": run.task.title,
        "display": lowered(shown["display"]),
        "meta": joined(run.repository.name, f"run {run.attempt_no}", worker, cost),
        "sentence": sentence,
        "sentence_tone": tone,
        "risk": risk_badge(state.effective_risk),
        "updated": when(run.updated_at),
    }


_SPEAKING: Final = frozenset(
    {Display.WAITING, Display.NEEDS_REVIEW, Display.BLOCKED, Display.PAUSED, Display.CANCELLING}
)


def row_sentence(shown: Json, state: RunState | None) -> tuple[str, str]:
    """Why it waits or failed, with a tone; "" where the state says it all."""
    display, wait = shown["display"], shown["waiting_for"]
    if display["state"] == Display.FAILED and state is not None:
        return failed_sentence(state), "bad"
    if display["state"] in _SPEAKING and wait:
        return wait["sentence"], ""
    return "", ""


def failed_sentence(state: RunState) -> str:
    """Why a run failed or expired, in words."""
    if state.expiration:
        scope = str(state.expiration.get("scope", "")).replace("_", " ")
        return f"The {scope} clock ran out: nobody was heard in time."
    return f"{failure_words(state.failure or {})}."
