"""The pages of notices: the inbox, when mail comes, when one is away. Only POST changes anything."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agentplatform.clock import database_now
from approvals.asking.away import absence_add
from approvals.models import Absence, Notice, Preference
from approvals.notices.selectors import inbox, settings_of, visible_notices
from runs.domain.errors import Invalid
from runs.models import Person
from runs.web.session import page, principal_of, show


class PreferenceForm(forms.ModelForm):
    """When mail comes, by kind."""

    class Meta:
        model = Preference
        fields = ("needs_review", "blocked", "failed", "completed")


class AwayForm(forms.Form):
    """From the morning of one day to the end of another, UTC."""

    starts = forms.DateField(label="From", widget=forms.DateInput(attrs={"type": "date"}))
    ends = forms.DateField(label="To and with", widget=forms.DateInput(attrs={"type": "date"}))
    stand_in = forms.CharField(label="Name of who stands in", max_length=150, required=False)

    def clean_stand_in(self) -> Person | None:
        """Somebody with an account here."""
        name = self.cleaned_data["stand_in"].strip()
        if not name:
            return None
        person = Person.objects.filter(username=name, is_active=True).first()
        if person is None:
            raise forms.ValidationError("Nobody here has this name.")
        return person


@page
@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """What this person was told."""
    found = inbox(principal=principal_of(request), params=request.GET.dict())
    return show(request, "notices/inbox.html", "notices/_inbox.html", found)


@page
@require_POST
def notices_read(request: HttpRequest) -> HttpResponse:
    """Mark one as read, or all."""
    mine = visible_notices(principal_of(request)).filter(read_at__isnull=True)
    if one := request.POST.get("notice", ""):
        mine = mine.filter(pk=one)
    Notice.objects.filter(pk__in=mine.values("pk")).update(read_at=database_now())
    return redirect("notifications")


@page
@require_http_methods(["GET", "HEAD", "POST"])
def notice_settings(request: HttpRequest) -> HttpResponse:
    """When mail comes."""
    person = _person(request)
    found = settings_of(person)
    form = PreferenceForm(request.POST or None, instance=found["preference"])
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved.")
        return redirect("notice-settings")
    return _settings(request, {**found, "form": form, "away": AwayForm()})


@page
@require_POST
def away_add(request: HttpRequest) -> HttpResponse:
    """Say when one is away, and who stands in."""
    person, away = _person(request), AwayForm(request.POST)
    if away.is_valid() and _added(person, away):
        messages.success(request, "Noted. What is asked of you then goes to who stands in.")
        return redirect("notice-settings")
    found = settings_of(person)
    form = PreferenceForm(instance=found["preference"])
    return _settings(request, {**found, "form": form, "away": away}, status=422)


def _added(person: Person, away: AwayForm) -> bool:
    """Whether it could be written; what was wrong stands in the form."""
    data = away.cleaned_data
    try:
        absence_add(
            person=person,
            starts_at=datetime.combine(data["starts"], time.min, UTC),
            ends_at=datetime.combine(data["ends"], time.max, UTC),
            stand_in=data["stand_in"],
            now=database_now(),
        )
    except Invalid as refusal:
        names = {"starts_at": "starts", "ends_at": "ends", "stand_in": "stand_in"}
        for name, texts in refusal.errors.items():
            away.add_error(names[name], texts)
        return False
    return True


@page
@require_POST
def away_end(request: HttpRequest, absence_id: str) -> HttpResponse:
    """Back early, or not going at all."""
    mine = Absence.objects.filter(pk=absence_id, person=_person(request))
    if not mine.delete()[0]:
        raise Http404
    messages.success(request, "You are here.")
    return redirect("notice-settings")


def _person(request: HttpRequest) -> Person:
    person = principal_of(request).person
    if person is None:
        raise Http404
    return person


def _settings(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    return render(request, "notices/settings.html", context, status=status)
