"""Admin of who is asked: teams, handles of CODEOWNERS files, owners of repositories, absences."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin

from approvals import models
from runs.admin.base import Managed


@admin.register(models.Team)
class TeamAdmin(Managed):
    """Teams: they are asked, they get no rights."""

    list_display = ("name",)
    search_fields = ("name",)
    autocomplete_fields = ("members",)


class _EitherForm(forms.ModelForm):
    """A person or a team, and not both."""

    def clean(self) -> dict[str, Any]:
        """Refuse neither and both."""
        found = super().clean() or {}
        if bool(found.get("person")) == bool(found.get("team")):
            raise forms.ValidationError("Choose a person or a team.")
        return found


class HandleForm(_EitherForm):
    """A handle as CODEOWNERS files write it."""

    class Meta:
        model = models.Handle
        fields = ("text", "person", "team")

    def clean_text(self) -> str:
        """In lower case: forges do not tell cases apart."""
        text: str = self.cleaned_data["text"].strip().casefold()
        if "@" not in text or any(c.isspace() for c in text):
            raise forms.ValidationError("Write it as the file does: @name, @org/team or an e-mail address.")
        return text


@admin.register(models.Handle)
class HandleAdmin(Managed):
    """Who is meant by a handle."""

    form = HandleForm
    list_display = ("text", "person", "team")
    list_select_related = ("person", "team")
    search_fields = ("text", "person__username", "team__name")
    autocomplete_fields = ("person", "team")


class RepositoryOwnerForm(_EitherForm):
    """An owner of a repository."""

    class Meta:
        model = models.RepositoryOwner
        fields = ("repository", "person", "team")


@admin.register(models.RepositoryOwner)
class RepositoryOwnerAdmin(Managed):
    """Who is asked where CODEOWNERS names nobody."""

    form = RepositoryOwnerForm
    list_display = ("repository", "person", "team")
    list_select_related = ("repository", "person", "team")
    search_fields = ("repository__name", "person__username", "team__name")
    autocomplete_fields = ("repository", "person", "team")


class AbsenceForm(forms.ModelForm):
    """An absence, checked as on people's own page."""

    class Meta:
        model = models.Absence
        fields = ("person", "stand_in", "starts_at", "ends_at")

    def clean(self) -> dict[str, Any]:
        """Refuse what the database would, in words."""
        found = super().clean() or {}
        starts, ends = found.get("starts_at"), found.get("ends_at")
        if starts and ends and ends <= starts:
            self.add_error("ends_at", "must be later than the start")
        person, stand_in = found.get("person"), found.get("stand_in")
        if person and stand_in and stand_in.person_key == person.person_key:
            self.add_error("stand_in", "must be another person")
        return found


@admin.register(models.Absence)
class AbsenceAdmin(Managed):
    """Absences: people say so themselves; here for those who fell ill."""

    form = AbsenceForm
    list_display = ("person", "stand_in", "starts_at", "ends_at", "handed_over_at")
    list_select_related = ("person", "stand_in")
    search_fields = ("person__username",)
    autocomplete_fields = ("person", "stand_in")
