"""The page of outcomes: ready strings, and for each figure the list of the runs behind it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from runs.auth import Principal
from runs.domain.facts import Json
from runs.domain.times import spell
from runs.selectors.export import safe_cell
from runs.selectors.filters import empty_list, filter_form, repository_choice
from runs.selectors.outcomes import (
    DIMENSIONS,
    MOST_GROUPS,
    PERIODS,
    Asked,
    Group,
    asked_for,
    outcome_groups,
    outcome_total,
)
from runs.selectors.words import money

_HEADINGS: Final = (
    "runs", "opened", "open", "merged", "closed", "reverted", "red_checks", "median_seconds_to_merge",
    "cost_usd", "cost_usd_per_merged",
)  # fmt: skip


def outcome_page(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """``{filters, periods, dimensions, by, tiles, rows, more, empty, export}``. Six queries at most, whatever
    the number of runs.

    ``params``: by, days, mine, repository, agent, campaign, team, label.
    """
    asked = asked_for(params)
    groups = outcome_groups(principal, asked)
    total = outcome_total(principal, asked)
    filters = _filters(principal, params, asked)
    return {
        "filters": filters,
        "periods": [_link(f"{days} days", asked, days=str(days)) for days in PERIODS],
        "scopes": [_link("All repositories", asked, mine=""), _link("Mine", asked, mine="1")],
        "dimensions": [_link(f"By {label.lower()}", asked, by=name) for name, label in DIMENSIONS.items()],
        "by": DIMENSIONS[asked.by],
        "counts_twice": asked.by in ("label", "team"),
        "tiles": _tiles(total, asked),
        "rows": [_row(group, asked) for group in groups],
        "more": len(groups) == MOST_GROUPS,
        "empty": _empty(filters, asked),
        "export": {"href": f"{reverse('outcomes_csv')}?{urlencode(_address(asked))}", "text": "CSV"},
    }


def _empty(filters: Json, asked: Asked) -> Json:
    hint = "A run is counted when it ends: what became of its pull request, how soon, and what it cost."
    return empty_list(filters, title=f"No run ended in these {asked.days} days", hint=hint)


def _filters(principal: Principal, params: Mapping[str, str], asked: Asked) -> Json:
    """The form. By what and how far back it is looked at is no filter: it stays when they are cleared."""
    linked = ("agent", "campaign", "team", "label", "mine")
    form = filter_form(params, [repository_choice(principal)], linked=linked, said=_said)
    looks = {"by": asked.by, "days": str(asked.days)}
    form["fields"] += [
        {"name": name, "kind": "hidden", "value": value, "label": ""} for name, value in looks.items()
    ]
    return {**form, "clear_url": f"?{urlencode(looks)}"}


def _said(name: str, value: str) -> str:
    return _SAID.get(name) or f"{name} {value}"


_SAID: Final = {"mine": "in my repositories", "campaign": "in one campaign"}


def _address(asked: Asked, **changed: str) -> dict[str, str]:
    now = {"by": asked.by, "days": str(asked.days), **asked.narrowed, "mine": "1" if asked.mine else ""}
    return {name: value for name, value in {**now, **changed}.items() if value}


def _link(label: str, asked: Asked, **changed: str) -> Json:
    address = _address(asked, **changed)
    return {"label": label, "href": f"?{urlencode(address)}", "current": address == _address(asked)}


# --- figures -----------------------------------------------------------------------------------------


def _runs(asked: Asked, **more: str) -> str:
    """The list of the runs behind a figure."""
    words = {**asked.narrowed, "ended_since": str(asked.first), "mine": "1" if asked.mine else "", **more}
    return f"{reverse('runs')}?{urlencode({name: value for name, value in words.items() if value})}"


def _tiles(total: Group, asked: Asked) -> list[Json]:
    """``{label, text, note, href, tone}``, the runs behind each a click away."""
    opened = f"of {total.opened:,} opened"
    return [
        {"label": "Runs that ended", "text": f"{total.runs:,}", "note": money(total.cost),
         "href": _runs(asked)},
        _tile("Merged", total.merged, opened, total.opened, asked, pull_request="merged"),
        _tile("Closed unmerged", total.closed, opened, total.opened, asked, pull_request="closed"),
        _tile("Reverted", total.reverted, f"of {total.merged:,} merged", total.merged, asked,
              pull_request="reverted"),
        _tile("Had red checks", total.red, opened, total.opened, asked, pull_request="red"),
        {"label": "Time to merge", "text": _length(total.merge_seconds), "note": "median",
         "href": _runs(asked, pull_request="merged")},
        {"label": "Cost per merged change", "text": _per(total), "note": "with the runs that came to nothing",
         "href": _runs(asked)},
    ]  # fmt: skip


def _tile(label: str, count: int, note: str, whole: int, asked: Asked, **more: str) -> Json:
    share = f"{_share(count, whole)} " if whole else ""
    return {"label": label, "text": f"{count:,}", "note": f"{share}{note}", "href": _runs(asked, **more)}


def _row(group: Group, asked: Asked) -> Json:
    here = {asked.by: group.who}
    return {
        "who": group.title,
        "href": f"?{urlencode(_address(asked, **here, by=_next(asked.by)))}",
        "cells": [
            {"text": f"{group.runs:,}", "href": _runs(asked, **here)},
            {"text": f"{group.opened:,}", "href": _runs(asked, **here, pull_request="opened")},
            _cell(group.merged, group.opened, asked, here, "merged"),
            _cell(group.closed, group.opened, asked, here, "closed"),
            _cell(group.reverted, group.merged, asked, here, "reverted"),
            _cell(group.red, group.opened, asked, here, "red"),
            {"text": _length(group.merge_seconds), "href": ""},
            {"text": money(group.cost), "href": ""},
            {"text": _per(group), "href": ""},
        ],
    }


def _next(by: str) -> str:
    """A group is looked into by something else than what made it."""
    return "agent" if by == "repository" else "repository"


def _cell(count: int, whole: int, asked: Asked, here: Mapping[str, str], word: str) -> Json:
    text = f"{count:,}" + (f" ({_share(count, whole)})" if whole and count else "")
    return {"text": text, "href": _runs(asked, **here, pull_request=word) if count else ""}


def _share(count: int, whole: int) -> str:
    return f"{100 * count / whole:.0f} %" if whole else ""


def _length(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return spell(timedelta(seconds=seconds)) if seconds >= 1 else "< 1 s"


def _per(group: Group) -> str:
    return "–" if group.cost_per_merged is None else money(group.cost_per_merged)


# --- as data -----------------------------------------------------------------------------------------


def outcome_csv(*, principal: Principal, params: Mapping[str, str]) -> str:
    """The table for spreadsheets (RFC 4180), with the filters of the page. Three queries at most."""
    asked = asked_for(params)
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    titled = asked.by == "campaign"
    writer.writerow((asked.by, *(("title",) if titled else ()), *_HEADINGS))
    for group in outcome_groups(principal, asked):
        names = (group.who, group.title) if titled else (group.who,)
        writer.writerow([safe_cell(value) for value in (*names, *_values(group).values())])
    return buffer.getvalue()


def outcome_answer(*, principal: Principal, params: Mapping[str, str]) -> Json:
    """``{by, since, results: [{name, title, …}], total: {…}}`` for the API. Five queries at most."""
    asked = asked_for(params)
    groups = outcome_groups(principal, asked)
    return {
        "by": asked.by,
        "since": str(asked.first),
        "results": [{"name": group.who, "title": group.title, **_values(group)} for group in groups],
        "total": _values(outcome_total(principal, asked)),
    }


def _values(group: Group) -> Json:
    seconds = group.merge_seconds
    numbers = (
        group.runs, group.opened, group.is_open, group.merged, group.closed, group.reverted, group.red,
        None if seconds is None else round(seconds), _plain(group.cost), _plain(group.cost_per_merged),
    )  # fmt: skip
    return dict(zip(_HEADINGS, numbers, strict=True))


def _plain(amount: Decimal | None) -> str | None:
    """US dollars to a millionth, without an exponent."""
    return None if amount is None else f"{round(amount, 6).normalize():f}"
