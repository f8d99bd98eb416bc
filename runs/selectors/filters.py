"""Filters of lists: read from the address, shown as a form, and cleared by one link."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from runs.auth import Principal, visible_repositories
from runs.domain.display import Display
from runs.domain.facts import Json
from runs.domain.vocabulary import FailureCategory, RunStatus, TaskStatus, Word
from runs.domain.waiting import REASONS
from runs.models import Repository

Option = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter with a fixed set of values; "" is any."""

    name: str
    label: str
    options: tuple[Option, ...]

    def field(self, value: str) -> Json:
        """Its part of the form; a value that is no option is shown as what it is."""
        known = dict(self.options)
        extra = ((value, value),) if value and value not in known else ()
        options = [("", "Any"), *self.options, *extra]
        return {
            "name": self.name,
            "label": self.label,
            "kind": "select",
            "options": [{"value": v, "label": text, "selected": v == value} for v, text in options],
        }


def words(name: str, label: str, members: Iterable[Word]) -> Choice:
    """A choice of the vocabulary."""
    return Choice(name, label, tuple((member.value, member.label) for member in members))


DISPLAY: Final = words("display", "State", Display)
RUN_STATUS: Final = words("status", "Status", RunStatus)
TASK_STATUS: Final = words("status", "Status", TaskStatus)
FAILURE: Final = Choice(
    "failure_category",
    "Failure",
    (*((member.value, member.label) for member in FailureCategory), ("EXPIRED", "A clock ran out")),
)
WAITING: Final = Choice("waiting_reason", "Waits for", tuple(REASONS.items()))


def repository_choice(principal: Principal) -> Choice:
    """The repositories that this person may see. One query."""
    rows = Repository.objects.order_by("name")
    ids = visible_repositories(principal)
    if ids is not None:
        rows = rows.filter(pk__in=ids)
    return Choice(
        "repository", "Repository", tuple((name, name) for name in rows.values_list("name", flat=True))
    )


def filter_form(
    params: Mapping[str, str],
    choices: Iterable[Choice],
    *,
    search: str = "",
    linked: Iterable[str] = (),
    said: Callable[[str, str], str] = "{} {}".format,
) -> Json:
    """The form in components/filters.html. ``linked`` filters come from links alone: they are kept, and
    ``said`` puts each in words."""
    fields: list[Json] = []
    if search:
        fields.append({"name": "q", "label": search, "kind": "search", "value": params.get("q", "")})
    fields += [choice.field(params.get(choice.name, "")) for choice in choices]
    for name in linked:
        if params.get(name):
            fields.append(
                {"name": name, "kind": "hidden", "value": params[name], "label": said(name, params[name])}
            )
    set_now = [field["name"] for field in fields if params.get(field["name"])]
    also = [field["label"] for field in fields if field["kind"] == "hidden"]
    return {
        "fields": fields,
        "active": bool(set_now),
        "clear_url": "?",
        "set": len(set_now),
        "summary": f"Only {', '.join(also)}" if also else "",
    }


def views_of(views: Iterable[tuple[str, Json]], params: Mapping[str, str]) -> list[Json]:
    """Links to filters that people come back to; the one that stands in the address is current."""
    now = {name: value for name, value in params.items() if value and name not in ("older", "newer")}
    return [
        {"label": label, "href": f"?{urlencode(wanted)}", "current": wanted == now} for label, wanted in views
    ]


def empty_list(filters: Json, *, title: str, hint: str, action: Json | None = None) -> Json:
    """What an empty list says: the next step, or that the filters leave nothing."""
    if not filters["active"]:
        return {"title": title, "hint": hint, "action": action}
    count = filters["set"]
    said = "1 filter is set." if count == 1 else f"{count} filters are set."
    return {"title": "Nothing matches", "hint": said, "action": {"label": "Clear the filters", "href": "?"}}
