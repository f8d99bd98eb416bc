"""The page of holds: see them, set one, lift one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from agentplatform.clock import database_now
from runs import service
from runs.auth import require_hold, require_hold_over
from runs.domain.errors import Invalid, NotFound
from runs.domain.holds import MAX_VALUE
from runs.domain.payloads import MAX_REASON
from runs.selectors.holds import hold_page, scopes, visible_holds
from runs.web.session import page, principal_of

_LASTS: Final = [("60", "1 hour"), ("240", "4 hours"), ("1440", "1 day"), ("", "Until somebody lifts it")]


class HoldForm(forms.Form):
    """A hold as somebody wants it; the service says what is wrong with it."""

    scope = forms.ChoiceField(label="What to hold", choices=scopes)
    value = forms.CharField(
        label="Which", required=False, max_length=MAX_VALUE,
        help_text="The repository, agent kind or label. Nothing for the platform.",
    )  # fmt: skip
    reason = forms.CharField(
        max_length=MAX_REASON, widget=forms.Textarea(attrs={"rows": 2, "data-draft": ""}),
        help_text="Everybody reads it at the top of every page.",
    )  # fmt: skip
    lasts = forms.ChoiceField(label="For", required=False, choices=_LASTS)
    cancel_running = forms.BooleanField(label="Also cancel what runs", required=False)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def holds(request: HttpRequest) -> HttpResponse:
    """Which holds there are, and the form that sets one."""
    if request.method == "POST":
        return _set(request)
    shown = {"scope": request.GET.get("scope", ""), "value": request.GET.get("value", "")}
    return _show(request, HoldForm(initial=shown))


def _set(request: HttpRequest) -> HttpResponse:
    principal, form = principal_of(request), HoldForm(request.POST)
    try:
        require_hold(principal, request.POST.get("scope", ""), request.POST.get("value", "").strip())
        if not form.is_valid():
            return _show(request, form, status=422)
        service.hold_set(by=principal.name, by_id=principal.id, **_wanted(form.cleaned_data))
    except Invalid as refusal:
        form.is_valid()
        for name, texts in refusal.errors.items():
            form.add_error(name if name in form.fields else None, texts)
        return _show(request, form, status=422)
    messages.success(request, "Held. What it covers is not claimed any more.")
    return redirect("holds")


def _wanted(given: dict[str, Any]) -> dict[str, Any]:
    names = ("scope", "value", "reason", "cancel_running")
    until = database_now() + timedelta(minutes=int(given["lasts"])) if given["lasts"] else None
    return {**{name: given[name] for name in names}, "expires_at": until}


def _show(request: HttpRequest, form: HoldForm, *, status: int = 200) -> HttpResponse:
    found = hold_page(principal=principal_of(request))
    return render(request, "runs/holds.html", {**found, "form": form}, status=status)


@page
@require_POST
def hold_lift(request: HttpRequest, hold_id: str) -> HttpResponse:
    """End a hold now."""
    principal = principal_of(request)
    found = visible_holds(principal).filter(pk=hold_id).first()
    if found is None:
        raise NotFound
    require_hold_over(principal, found.repository_id or "")
    service.hold_lift(hold_id=hold_id, by=principal.name)
    messages.success(request, "Lifted. What it covered is claimed again.")
    return redirect("holds")
