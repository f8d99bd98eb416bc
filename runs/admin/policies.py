"""Repositories and policies. A policy changes by a new version, whose effect is shown before it is saved."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from agentplatform.clock import database_now
from runs import models, service
from runs.admin.base import HistoryInline, Managed, caller_of
from runs.admin.lists import by_word
from runs.domain.errors import Refusal
from runs.domain.policy import check_values
from runs.domain.strict_json import parse
from runs.selectors.policies import MOST_SHOWN, names_fitting, policy_difference, policy_effects
from runs.selectors.simulation_page import policy_decisions


@admin.register(models.Repository)
class RepositoryAdmin(Managed):
    """Repositories."""

    list_display = ("name", "provider", "url", "base_branch", "policy", "archived_at")
    list_select_related = ("policy",)
    list_filter = (
        by_word("provider", models.Repository.PROVIDERS),
        ("archived_at", admin.EmptyFieldListFilter),
    )
    search_fields = ("name", "id__exact", "url")
    autocomplete_fields = ("policy",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Tasks name it for ever; archive it instead."""
        return False


@admin.register(models.Organisation)
class OrganisationAdmin(Managed):
    """Organisations and groups of forges whose repositories are kept in step."""

    list_display = ("path", "provider", "host", "only", "kept", "looked_at", "found")
    search_fields = ("path", "host")
    autocomplete_fields = ("inherits",)
    readonly_fields = ("looked_at", "next_look_at", "found")
    actions = ("look_now",)

    @admin.action(description="Look now", permissions=["change"])
    def look_now(self, request: HttpRequest, queryset: QuerySet[models.Organisation]) -> None:
        """Within a minute; the forge is never asked in a request."""
        count = queryset.filter(kept=True).update(next_look_at=database_now())
        messages.success(request, f"Looked at within a minute: {count}. What came of it is told here.")


@admin.register(models.PolicyRule)
class PolicyRuleAdmin(Managed):
    """Policies over repositories by patterns of their names, the nearest last."""

    list_display = ("pattern", "policy", "position", "created_at")
    list_select_related = ("policy",)
    search_fields = ("pattern", "policy__name")
    autocomplete_fields = ("policy",)
    readonly_fields = ("fits",)

    @admin.display(description="fits now")
    def fits(self, rule: models.PolicyRule) -> str:
        """The repositories that it holds for."""
        return _listed(names_fitting(rule=rule)) if rule.pk else "Shown once it is saved."

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001  Django's signature
        """Say at once for which repositories it holds."""
        super().save_model(request, obj, form, change)
        rule = models.PolicyRule.objects.get(pk=obj.pk)  # the database makes the pattern that it compares
        messages.info(request, f"It holds for {_listed(names_fitting(rule=rule))}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    count = "1 repository" if len(names) == 1 else f"{len(names)} repositories"
    return f"{count}: {', '.join(names[:MOST_SHOWN])}{more}." if names else "no repository yet."


class PolicyVersionInline(HistoryInline):
    """The versions, newest first; none is ever edited: runs name the one that they were judged by."""

    model = models.PolicyVersion
    fields = ("number", "values", "changed_by", "changed_at")
    ordering = ("-number",)


class VersionForm(forms.Form):
    """The whole of a new version, as a policy file holds it."""

    values = forms.CharField(
        widget=forms.Textarea(attrs={"class": "vLargeTextField", "rows": 24, "spellcheck": "false"})
    )
    reason = forms.CharField(max_length=2_000, widget=forms.TextInput(attrs={"class": "vTextField"}))
    based_on = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def clean_values(self) -> dict[str, Any]:
        """Refuse what is not a policy, field by field."""
        try:
            values = parse(self.cleaned_data["values"].encode())
        except Refusal as refusal:
            raise forms.ValidationError(refusal.in_words) from None
        if not isinstance(values, dict):
            raise forms.ValidationError("A policy is an object of fields.")
        if wrong := check_values(values):
            raise forms.ValidationError([f"{name} {message}" for name, (message, *_) in wrong.items()])
        return values


@admin.register(models.Policy)
class PolicyAdmin(Managed):
    """Policies and their versions; the newest holds."""

    inlines = (PolicyVersionInline,)
    list_display = ("name", "inherits", "created_at")
    list_select_related = ("inherits",)
    search_fields = ("name",)
    autocomplete_fields = ("inherits",)
    change_form_template = "admin/policy.html"

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Runs name its versions for ever."""
        return False

    def get_urls(self) -> list[URLPattern]:
        """Adds the page of a new version."""
        new = self.admin_site.admin_view(self.new_version)
        return [path("<int:pk>/version/", new, name="runs_policy_version"), *super().get_urls()]

    def new_version(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Type it, look at what it would change, save exactly what was looked at."""
        policy = models.Policy.objects.filter(pk=pk).first()
        if policy is None or not self.has_change_permission(request, policy):
            raise Http404
        newest = policy.versions.order_by("-number").first()
        now: dict[str, Any] = newest.values if newest else {}
        text = json.dumps(now, indent=2, ensure_ascii=False)
        given = {"values": text, "based_on": newest.number if newest else 0}
        form = VersionForm(request.POST or None, initial=given)
        context: dict[str, Any] = {"form": form, "policy": policy, "title": f"New version of {policy}"}
        if request.method == "POST" and form.is_valid():
            values = form.cleaned_data["values"]
            seen = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
            if request.POST.get("seen") == seen and self._saved(request, policy, form):
                return redirect("admin:runs_policy_change", policy.pk)
            context["seen"] = seen
            context["difference"] = policy_difference(values=now, others=values)
            context["effects"] = policy_effects(policy=policy, values=values)
            context["decisions"] = policy_decisions(policy=policy, values=values)
        shell = self.admin_site.each_context(request)
        return TemplateResponse(request, "admin/policy_version.html", {**shell, "opts": self.opts, **context})

    def _saved(self, request: HttpRequest, policy: models.Policy, form: VersionForm) -> bool:
        """Whether it could be saved; if not, why stands in the form."""
        told = form.cleaned_data
        try:
            made = service.policy_change(
                policy=policy,
                values=told["values"],
                based_on=told["based_on"],
                by=caller_of(request),
                reason=told["reason"],
            )
        except Refusal as refusal:
            form.add_error(None, refusal.in_words)
            return False
        messages.success(request, f"{policy} is at version {made.number}. It holds from now on.")
        return True
