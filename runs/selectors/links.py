"""Addresses of pages for the actions of the display vocabulary."""

from __future__ import annotations

from typing import Final

from django.urls import reverse

from runs.domain.actions import ActionRow
from runs.domain.facts import Json

#: What a button asks before it posts: {confirm?, reason_required?, tone?}.
_ASKS: Final[dict[str, Json]] = {
    "cancel": {
        "confirm": "Stops this run. Its partial patch and its logs are kept; the task is cancelled with it.",
        "reason_required": True,
        "tone": "danger",
    },
    "delete": {"confirm": "Deletes this draft. Its log stays.", "tone": "danger"},
    "pause": {
        "confirm": "The worker saves a checkpoint and gives the run back; nobody goes on until you resume it."
    },
    "wind_down": {
        "confirm": "No new work is begun. What there is goes through checks and judging as it stands."
    },
    "submit": {"tone": "primary"},
    "review": {"tone": "primary"},
    "resolve": {"tone": "primary"},
    "resume": {"tone": "primary"},
}
_LOOK: Final = {"open_logs": "?tab=steps", "view_error": "", "review_result": "?tab=result"}


def page_href(action: ActionRow, task_id: str, run_id: str, approval_id: str) -> str:
    """Where a page sends an action: a page to look at, or the address to post to."""
    if action.name in ("review", "resolve"):
        return reverse("approval", args=[approval_id])
    if action.subject == "page":
        return (
            reverse("run", args=[run_id]) + _LOOK[action.name] if run_id else reverse("task", args=[task_id])
        )
    if action.name == "edit":
        return reverse("task_edit", args=[task_id])
    if action.subject == "task":
        return reverse("task_action", args=[task_id, action.name])
    return reverse("run_action", args=[run_id, action.name])


_LINKS: Final = frozenset({"review", "resolve", "edit", *_LOOK})


def buttons(actions: list[Json], *, here: str = "", key: str = "") -> list[Json]:
    """Actions as the action bar takes them, what destroys last; links to the page ``here`` are left out."""
    found = []
    for action in actions:
        if here and action["href"] == here:
            continue
        asks = _ASKS.get(action["name"], {})
        method = "get" if action["name"] in _LINKS else "post"
        more = {"key": key} if key and action["name"] == "run_again" else {}
        found.append({**action, "method": method, **asks, **more})
    return sorted(found, key=lambda button: button.get("tone") == "danger")
