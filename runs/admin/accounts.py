"""People, machines and what lets them in: roles, tokens, sessions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from agentplatform.clock import database_now
from runs import models, service
from runs.admin.base import (
    History,
    HistoryInline,
    Managed,
    caller_of,
    each,
    needs_reason,
    reason_of,
    with_reason,
)
from runs.domain.errors import Refusal
from runs.domain.vocabulary import MACHINE_ROLES
from runs.service.accounts import PARTS_OF_PERSON

#: How long a token made here works, unless another life is chosen by command.
LIFE = timedelta(days=365)


class RoleGrantInline(admin.TabularInline):
    """A person's roles."""

    model = models.RoleGrant
    extra = 1
    autocomplete_fields = ("repository",)


class TokenInline(HistoryInline):
    """Their tokens."""

    model = models.ApiToken
    fields = ("id", "name", "roles", "created_at", "expires_at", "last_used_at", "revoked_at")
    ordering = ("-created_at",)


@admin.register(models.Person)
class PersonAdmin(Managed, UserAdmin):
    """People and their roles. Nobody is deleted: what they decided names them; they become inactive."""

    inlines = (RoleGrantInline, TokenInline)
    parts = PARTS_OF_PERSON
    list_display = ("username", "first_name", "last_name", "email", "is_active", "is_superuser", "last_login")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email", "same_person_as")}),
        ("Access", {"fields": ("is_active", "is_superuser")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    readonly_fields = ("is_superuser", "last_login", "date_joined")
    list_filter = ("is_active", "is_superuser", "grants__role")
    search_fields = ("username", "first_name", "last_name", "email")
    filter_horizontal = ()
    raw_id_fields = ("same_person_as",)
    add_form = with_reason(UserAdmin.add_form)
    actions = ("leave", "sign_out")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Decisions name them for ever; make them inactive instead."""
        return False

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:  # noqa: FBT001  Django's signature
        """After the roles: who may administer follows from them, and who has left gets in no more."""
        super().save_related(request, form, formsets, change)
        person = form.instance
        if any(formset.has_changed() for formset in formsets if formset.model is models.RoleGrant):
            service.access_settle(person=person)
        if change and "is_active" in form.changed_data and not person.is_active:
            service.person_leave(person=person, by=caller_of(request), reason=reason_of(request))
            _say_what_works_on(request, person)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """A refusal undoes all of it, and says why."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except Refusal as refusal:
            messages.error(request, refusal.in_words)
            return HttpResponseRedirect(request.get_full_path())

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002  Django's signature
        """Look at the person before the password changes."""
        if person := self.get_object(request, unquote(id)):
            request._audit_before = self.look(person)  # type: ignore[attr-defined]  # noqa: SLF001  of this request alone
        return super().user_change_password(request, id, form_url)

    @admin.action(
        description="They have left: tokens and sessions end, reviews go to others", permissions=["change"]
    )
    def leave(self, request: HttpRequest, queryset: QuerySet[models.Person]) -> None:
        """Make the chosen people inactive."""
        if needs_reason(request):
            return

        def leave(person: models.Person) -> None:
            before = self.look(person)
            person.is_active = False
            person.save(update_fields=["is_active"])
            self.log_act(request, person, before, "Has left.")
            service.person_leave(person=person, by=caller_of(request), reason=reason_of(request))
            _say_what_works_on(request, person)

        each(request, queryset.filter(is_active=True), leave)

    @admin.action(description="Sign out everywhere", permissions=["change"])
    def sign_out(self, request: HttpRequest, queryset: QuerySet[models.Person]) -> None:
        """End all sessions of the chosen people."""
        if needs_reason(request):
            return
        by, reason = caller_of(request), reason_of(request)
        each(
            request,
            queryset,
            lambda person: service.sessions_end(sessions=person.sessions.all(), by=by, reason=reason),
        )


def _say_what_works_on(request: HttpRequest, person: models.Person) -> None:
    """Machines outlive who owns them: stopping them unasked would stop a company's work."""
    machines = models.WorkerAccount.objects.filter(owner=person, disabled_at=None).order_by("name")
    if names := ", ".join(machines.values_list("name", flat=True)):
        said = f"{person} still owns {names}, whose tokens work on: give them another owner, or disable them."
        messages.warning(request, said)


class WorkerForm(forms.ModelForm):
    """A worker account; its roles are boxes."""

    roles = forms.MultipleChoiceField(
        choices=[(role.value, role.label) for role in MACHINE_ROLES], widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = models.WorkerAccount
        fields = ("name", "roles", "labels", "owner", "repositories", "disabled_at")


@admin.register(models.WorkerAccount)
class WorkerAccountAdmin(Managed):
    """Worker accounts. Disabling one kills its tokens at once."""

    form = WorkerForm
    inlines = (TokenInline,)
    list_display = ("name", "roles", "labels", "owner", "version", "last_seen_at", "disabled_at")
    list_select_related = ("owner",)
    search_fields = ("name", "id__exact")
    autocomplete_fields = ("owner", "repositories")
    actions = ("new_token",)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Leases name it for ever; disable it instead."""
        return False

    @admin.action(description="Make a token for a year, and show it once", permissions=["change"])
    def new_token(self, request: HttpRequest, queryset: QuerySet[models.WorkerAccount]) -> None:
        """A token for each chosen account."""
        if needs_reason(request):
            return
        by, reason, ends = caller_of(request), reason_of(request), database_now() + LIFE

        def make(worker: models.WorkerAccount) -> None:
            made = service.token_create(by=by, worker=worker, name="admin", expires_at=ends, reason=reason)
            _show(request, *made)

        each(request, queryset, make)


@admin.register(models.ApiToken)
class ApiTokenAdmin(History):
    """Tokens: who has one, for which roles, until when, last used. The secret is shown when one is made."""

    list_display = (
        "id",
        "worker",
        "person",
        "roles",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
    )
    list_select_related = ("worker", "person")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter), ("expires_at", admin.EmptyFieldListFilter))
    search_fields = ("id__exact", "worker__name__exact", "person__username__exact")
    exclude = ("secret_sha256",)
    actions = ("revoke", "renew")

    @admin.action(description="Revoke: it stops working at once", permissions=["operate"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[models.ApiToken]) -> None:
        """Revoke the chosen tokens."""
        if needs_reason(request):
            return
        count = service.tokens_revoke(tokens=queryset, by=caller_of(request), reason=reason_of(request))
        messages.success(request, f"{count} revoked.")

    @admin.action(
        description="Renew: a new one is shown, the old one works for a day more", permissions=["operate"]
    )
    def renew(self, request: HttpRequest, queryset: QuerySet[models.ApiToken]) -> None:
        """Rotate the chosen tokens."""
        if needs_reason(request):
            return
        by, reason = caller_of(request), reason_of(request)
        each(
            request,
            queryset,
            lambda token: _show(request, *service.token_renew(token=token, by=by, reason=reason)),
        )


def _show(request: HttpRequest, token: models.ApiToken, secret: str) -> None:
    messages.warning(
        request, f"The token of {token.worker or token.person}, shown now and not again: {secret}"
    )
