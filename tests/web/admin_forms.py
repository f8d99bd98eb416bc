"""Admin as a browser uses it: the form that the page shows, sent back with what was changed in it."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse


def page_of(row: Any, page: str) -> str:
    """The address of one of a row's or model's admin pages."""
    meta = row._meta
    args = [] if page in ("changelist", "add") else [row.pk]
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{page}", args=args)


def change(client: Client, row: Any, **changed: Any) -> Any:
    """Send the row's change form with these fields changed."""
    context = client.get(page_of(row, "change")).context
    fields = dict(_fields(context["adminform"].form))
    for inline in context["inline_admin_formsets"]:
        fields |= dict(_fields(inline.formset.management_form))
        for form in inline.formset.forms:
            fields |= dict(_fields(form))
    return client.post(page_of(row, "change"), {**fields, "reason": "It has to be.", **changed}, follow=True)


def _fields(form: Any) -> Any:
    for bound in form:
        value = bound.value()
        if value is not None and value is not False and value != []:
            yield bound.html_name, value


def press(client: Client, rows: list[Any], action: str, *, reason: str = "It has to be.") -> str:
    """Do an action to these rows of a list; what the next page says."""
    chosen = {"action": action, "index": "0", "_selected_action": [row.pk for row in rows], "reason": reason}
    answer = client.post(page_of(rows[0], "changelist"), chosen, follow=True)
    return " ".join(str(message) for message in answer.context["messages"])
