"""What the pages of admin share: evidence is read and never written, and every act is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from runs import service
from runs.admin.lists import FirstRows
from runs.auth import Principal, of_person
from runs.domain.commands import Caller
from runs.domain.errors import Refusal
from runs.domain.vocabulary import Role
from runs.models import Person
from runs.models.audit import Act
from runs.service.audit import kind_of

#: Refusals that a message names one by one.
NAMED: Final = 5


class ReasonedAction(ActionForm):
    """The bar of actions, with a place for the reason."""

    reason = forms.CharField(label="Reason:", required=False, max_length=2_000)


class Listed(admin.ModelAdmin):
    """A list that opens as fast over a million rows as over ten."""

    paginator = FirstRows
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # each would count its rows
    list_per_page = 50
    list_max_show_all = 50
    action_form = ReasonedAction
    #: Columns that a list does not show and that would fill its memory.
    heavy: tuple[str, ...] = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Rows without what only their own page shows."""
        rows = super().get_queryset(request)
        return rows.defer(*self.heavy) if self.heavy else rows

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Without the deletion of many: each has a reason of its own."""
        found = super().get_actions(request)
        found.pop("delete_selected", None)
        return found

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> None:  # type: ignore[override]
        """Into the audit log, which is the only one."""
        after = self.look(obj)
        self._record(request, Act.ADDED, obj, after=after)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> None:  # type: ignore[override]
        """What differs, and what was done where a page or button says so in words."""
        before, after = getattr(request, "_audit_before", {}), self.look(obj)
        note = message if isinstance(message, str) else ""
        self._record(request, Act.CHANGED, obj, before=before or after, after=after, note=note)

    def log_act(self, request: HttpRequest, obj: Model, before: dict[str, Any], note: str) -> None:
        """What a button did to this row."""
        self._record(request, Act.CHANGED, obj, before=before, after=self.look(obj), note=note)

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Model]) -> None:  # type: ignore[override]
        """All that was there."""
        for obj in queryset:
            self._record(request, Act.DELETED, obj, before=self.look(obj))

    def _record(self, request: HttpRequest, act: Act, obj: Model, **told: Any) -> None:
        service.audit_record(by=caller_of(request), act=act, row=obj, reason=reason_of(request), **told)

    def look(self, obj: Model) -> dict[str, Any]:
        """The row as the audit log keeps it."""
        return service.snapshot(obj)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The audit log of this row."""
        where = f"?kind__exact={kind_of(self.model)}&target_id__exact={object_id}"
        return HttpResponseRedirect(reverse("admin:runs_auditentry_changelist") + where)


class History(Listed):
    """Rows that are evidence: searched, filtered, read; never added, edited or deleted, by anybody."""

    sortable_by = ()  # in the order of an index, and no other

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody adds to a history by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody edits it."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody deletes from it."""
        return False

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Buttons beside the evidence are for admins."""
        return is_admin(request)


class Managed(Listed):
    """Rows of the platform's setup: edited here, each time with a reason, before and after kept."""

    #: Rows below this one that are edited with it.
    parts: tuple[str, ...] = ()

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        self.form = with_reason(self.form)
        super().__init__(model, admin_site)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The reason stands last."""
        found: list[tuple[Any, dict[str, Any]]] = []
        for title, options in super().get_fieldsets(request, obj):
            others = tuple(name for name in options["fields"] if name != "reason")
            found.append((title, {**options, "fields": others}))
        return [*found, ("Why", {"fields": ("reason",)})]

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:  # noqa: FBT001  Django's signature
        """Look at the row before it changes."""
        if change:
            stored = type(obj)._default_manager.get(pk=obj.pk)  # noqa: SLF001  Django's documented name
            request._audit_before = self.look(stored)  # type: ignore[attr-defined]  # noqa: SLF001  of this request alone
        super().save_model(request, obj, form, change)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Ask for the reason first."""
        if request.method == "POST" and not reason_of(request):
            messages.error(request, "Nothing was deleted: type the reason.")
            return HttpResponseRedirect(request.get_full_path())
        return super().delete_view(request, object_id, extra_context)

    def look(self, obj: Model) -> dict[str, Any]:
        """The row with its parts."""
        return service.snapshot(obj, parts=self.parts)


def with_reason(form: type[forms.ModelForm]) -> type[forms.ModelForm]:
    """The form with a field for the reason, which must be given."""
    reason = forms.CharField(
        max_length=2_000, help_text="Kept in the audit log, beside how it was before and after.",
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )  # fmt: skip
    return type(form.__name__, (form,), {"reason": reason})


class HistoryInline(admin.TabularInline):
    """A history inside another page."""

    extra = 0
    can_delete = False
    show_change_link = True

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """All that is shown."""
        return self.fields or ()

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody adds to a history by hand."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Nobody edits it."""
        return False


# --- who does it, why, and what came of it ---------------------------------------------------------


def is_admin(request: HttpRequest) -> bool:
    """Whether this is somebody who may administer."""
    return bool(request.user.is_active and request.user.is_superuser)


def caller_of(request: HttpRequest) -> Caller:
    """Who administers, as logs and events name them. No query."""
    return Caller(str(request.user.pk), request.user.get_username(), frozenset({Role.HUMAN}))


def principal_of(request: HttpRequest) -> Principal:
    """Who administers, with what they may do."""
    if not isinstance(request.user, Person):
        raise TypeError("Only people administer.")
    return of_person(request.user)


def reason_of(request: HttpRequest) -> str:
    """The reason that was typed, or ""."""
    return request.POST.get("reason", "").strip()[:2_000]


def needs_reason(request: HttpRequest) -> bool:
    """Whether an action has to wait for its reason; it is then asked for."""
    if reason_of(request):
        return False
    messages.error(request, "Nothing was done: type the reason beside the action.")
    return True


def each(request: HttpRequest, rows: Iterable[Model], act: Callable[[Any], object]) -> None:
    """Do it to each row by itself, and say how many were done and which were refused, with the answer."""
    done, refused = 0, []
    for row in rows:
        try:
            with transaction.atomic():
                act(row)
            done += 1
        except Refusal as refusal:
            refused.append(f"{str(row)[:80]}: {refusal.in_words}")
    more = f" And {len(refused) - NAMED} more." if len(refused) > NAMED else ""
    said = f"{done} done, {len(refused)} refused" + (
        f": {' '.join(refused[:NAMED])}{more}" if refused else "."
    )
    messages.add_message(request, messages.WARNING if refused else messages.SUCCESS, said)
