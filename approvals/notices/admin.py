"""Admin of notices: webhooks and rooms are set up here; what was told and sent is only read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from agentplatform.clock import database_now
from approvals import models
from approvals.notices.chat import problem_of
from approvals.notices.guard import url_problem
from approvals.notices.webhooks import OVERLAP, secret_of, secret_renew, webhook_resume
from approvals.notices.words import KINDS
from runs.admin.base import History, Managed, needs_reason
from runs.admin.lists import by_word
from runs.domain.tasks import DOMAIN_EVENTS
from runs.models import Delivery


class WebhookForm(forms.ModelForm):
    """A webhook; its address is looked at here, and again at every connection."""

    events = forms.MultipleChoiceField(
        choices=[(name, name) for name in DOMAIN_EVENTS],
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None chosen: a task completed, failed, was rejected or needs a person.",
    )

    class Meta:
        model = models.Webhook
        fields = ("name", "url", "owner", "repositories", "is_active", "events")

    def clean_url(self) -> str:
        """Refuse what lies inside."""
        url: str = self.cleaned_data["url"]
        if problem := url_problem(url):
            raise forms.ValidationError(problem)
        return url


@admin.register(models.Webhook)
class WebhookAdmin(Managed):
    """Webhooks. A secret is shown when it is made; a paused one goes on from where its line stopped."""

    form = WebhookForm
    list_display = (
        "name",
        "url",
        "owner",
        "is_active",
        "failures",
        "last_success_at",
        "paused_at",
        "waiting",
    )
    list_select_related = ("owner",)
    search_fields = ("name", "id", "url")
    autocomplete_fields = ("owner", "repositories")
    readonly_fields = ("failures", "last_error", "last_success_at", "not_before", "paused_at")
    actions = ("renew_secret", "resume", "send_parked_again")

    @admin.display(description="in line")
    def waiting(self, webhook: models.Webhook) -> int:
        """Messages that wait for it."""
        waiting = Delivery.objects.filter(consumer=webhook.receiver, state=Delivery.PENDING)
        return waiting[:1_000].count()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001  Django's signature
        """Show the secret of a new one, once."""
        super().save_model(request, obj, form, change)
        if not change:
            self._show(request, obj, secret_of(obj.pk, obj.secret_number))

    def _show(self, request: HttpRequest, webhook: models.Webhook, secret: str) -> None:
        messages.warning(request, f"The secret of {webhook}, shown now and not again: {secret}")

    @admin.action(description="Make a new secret; the old one signs along for a day", permissions=["change"])
    def renew_secret(self, request: HttpRequest, queryset: QuerySet[models.Webhook]) -> None:
        """Rotate the secrets of the chosen webhooks."""
        if needs_reason(request):
            return
        for webhook in queryset:
            before = self.look(webhook)
            self._show(request, webhook, secret_renew(webhook))
            self.log_act(request, webhook, before, f"A new secret; the old one holds for {OVERLAP}.")

    @admin.action(description="Go on with a paused one", permissions=["change"])
    def resume(self, request: HttpRequest, queryset: QuerySet[models.Webhook]) -> None:
        """Ask the chosen webhooks again."""
        if needs_reason(request):
            return
        for webhook in queryset:
            before = self.look(webhook)
            webhook_resume(webhook)
            self.log_act(request, webhook, before, "Goes on.")
        messages.success(request, f"{len(queryset)} go on.")

    @admin.action(description="Send what was parked again", permissions=["change"])
    def send_parked_again(self, request: HttpRequest, queryset: QuerySet[models.Webhook]) -> None:
        """Put parked messages of the chosen webhooks back in line."""
        if needs_reason(request):
            return
        count = 0
        for webhook in queryset:
            parked = Delivery.objects.filter(consumer=webhook.receiver, state=Delivery.PARKED)
            again = parked.update(state=Delivery.PENDING, tries=0, next_try_at=database_now(), error="")
            self.log_act(request, webhook, self.look(webhook), f"Sent {again} parked messages again.")
            count += again
        messages.success(request, f"{count} back in line.")


class RoomForm(forms.ModelForm):
    """A room. Its address holds secrets: it is typed, and never shown again."""

    address = forms.CharField(
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="An Apprise address, such as slack://… or mailto://…. Not shown again; empty keeps it.",
    )
    kinds = forms.MultipleChoiceField(choices=KINDS, widget=forms.CheckboxSelectMultiple)

    class Meta:
        model = models.Room
        fields = ("name", "address", "kinds", "repositories", "is_active")

    def clean_address(self) -> str:
        """Refuse what is no room; keep what was there when nothing is typed."""
        address: str = self.cleaned_data["address"].strip()
        if not address and self.instance.address:
            return str(self.instance.address)
        if problem := problem_of(address):
            raise forms.ValidationError(problem)
        return address


@admin.register(models.Room)
class RoomAdmin(Managed):
    """Chat rooms."""

    form = RoomForm
    list_display = ("name", "kind_of_address", "kinds", "is_active")
    search_fields = ("name",)
    autocomplete_fields = ("repositories",)

    @admin.display(description="by")
    def kind_of_address(self, room: models.Room) -> str:
        """What carries it; the rest of the address is secret."""
        return room.address.partition("://")[0]


@admin.register(models.Preference)
class PreferenceAdmin(History):
    """When people want mail: where somebody says that none came. They choose it themselves."""

    list_display = ("person", "needs_review", "blocked", "failed", "completed")
    list_select_related = ("person",)
    search_fields = ("person__username__exact",)
    ordering = ("-pk",)


@admin.register(models.Notice)
class NoticeAdmin(History):
    """What was told to whom."""

    list_display = ("created_at", "person", "room", "kind", "title", "read_at", "settled_at", "letter")
    list_select_related = ("person", "room", "letter")
    list_filter = ("kind",)
    search_fields = ("subject__exact", "person__username__exact")
    ordering = ("-pk",)


@admin.register(models.Letter)
class LetterAdmin(History):
    """Mail and chat on its way; parked letters can be sent again."""

    list_display = ("id", "person", "room", "state", "tries", "next_try_at", "sent_at", "error")
    list_select_related = ("person", "room")
    list_filter = (by_word("state", (models.Letter.PENDING, models.Letter.SENT, models.Letter.PARKED)),)
    search_fields = ("id__exact", "person__username__exact")
    ordering = ("-pk",)
    actions = ("send_again",)

    @admin.action(description="Send parked letters again", permissions=["operate"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[models.Letter]) -> None:
        """Put parked letters back in line; one for each receiver is in hand at a time."""
        if needs_reason(request):
            return
        count = 0
        for letter in queryset.filter(state=models.Letter.PARKED):
            receiver = {"person_id": letter.person_id, "room_id": letter.room_id}
            if not models.Letter.objects.filter(**receiver, state=models.Letter.PENDING).exists():
                before = self.look(letter)
                letter.state, letter.tries, letter.next_try_at, letter.error = (
                    "pending",
                    0,
                    database_now(),
                    "",
                )
                letter.save(update_fields=["state", "tries", "next_try_at", "error"])
                self.log_act(request, letter, before, "Sent again.")
                count += 1
        messages.success(request, f"{count} back in line.")
