"""What people and rooms were told, the letters that it went out in, and where webhooks go."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from agentplatform.ids import new_id
from approvals.notices.words import KINDS, PACES, Pace


def notice_id() -> str:
    """A new notice's id."""
    return new_id("ntc")


def letter_id() -> str:
    """A new letter's id; it names the e-mail, too."""
    return new_id("ltr")


def room_id() -> str:
    """A new chat room's id."""
    return new_id("room")


def webhook_id() -> str:
    """A new webhook's id."""
    return new_id("whk")


class Preference(models.Model):
    """When a person gets mail, by kind. The inbox has everything, whatever they choose."""

    person = models.OneToOneField(
        "runs.Person", primary_key=True, on_delete=models.CASCADE, related_name="notice_preference"
    )
    needs_review = models.CharField(max_length=10, choices=PACES, default=Pace.NOW.value)
    blocked = models.CharField(max_length=10, choices=PACES, default=Pace.NOW.value)
    failed = models.CharField(max_length=10, choices=PACES, default=Pace.NOW.value)
    completed = models.CharField(max_length=10, choices=PACES, default=Pace.NOW.value)

    class Meta:
        db_table = "notice_preferences"

    def __str__(self) -> str:
        return f"mail for {self.person}"


class Room(models.Model):
    """A chat room, or whatever else Apprise reaches. Only admins set addresses: they hold secrets."""

    SECRET_FIELDS: ClassVar = ("address",)

    id = models.CharField(primary_key=True, max_length=40, default=room_id, editable=False)
    name = models.CharField(max_length=100, unique=True)
    address = models.CharField(max_length=1000, help_text="An Apprise address; not shown again.")
    kinds = ArrayField(models.CharField(max_length=20, choices=KINDS))
    repositories = models.ManyToManyField(
        "runs.Repository", blank=True, related_name="+", help_text="Empty: all of them."
    )
    is_active = models.BooleanField(default=True)

    class Meta:
        db_table = "chat_rooms"
        verbose_name = "chat room"

    def __str__(self) -> str:
        return self.name


class _Receiver(models.Model):
    """To whom: one person, or one room."""

    person = models.ForeignKey("runs.Person", null=True, on_delete=models.CASCADE, related_name="+")
    room = models.ForeignKey(Room, null=True, on_delete=models.CASCADE, related_name="+")

    class Meta:
        abstract = True


_ONE_RECEIVER = Q(person__isnull=False, room__isnull=True) | Q(person__isnull=True, room__isnull=False)


class Letter(_Receiver):
    """One message to one receiver, with one notice or many: pending, sent, or parked after its tries."""

    PENDING, SENT, PARKED = "pending", "sent", "parked"

    id = models.CharField(primary_key=True, max_length=40, default=letter_id, editable=False)
    state = models.CharField(max_length=10, default=PENDING)
    tries = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField()
    claim = models.CharField(max_length=40, blank=True)
    claimed_until = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "letters"
        constraints = [
            models.CheckConstraint(condition=_ONE_RECEIVER, name="letter_has_one_receiver"),
            # While one waits, what is new goes into the next: a mail server that was away is not followed
            # by a heap of letters.
            models.UniqueConstraint(
                fields=["person"], condition=Q(state="pending"), name="one_letter_in_hand_per_person"
            ),
            models.UniqueConstraint(
                fields=["room"], condition=Q(state="pending"), name="one_letter_in_hand_per_room"
            ),
        ]
        indexes = [
            models.Index(fields=["next_try_at"], name="letters_due", condition=Q(state="pending")),
            models.Index(fields=["person", "-sent_at"], name="letters_by_person"),
            models.Index(fields=["room", "-sent_at"], name="letters_by_room"),
        ]

    def __str__(self) -> str:
        return f"{self.pk} ({self.state})"


class Notice(_Receiver):
    """One thing told to one receiver, once per cause."""

    id = models.CharField(primary_key=True, max_length=40, default=notice_id, editable=False)
    cause = models.CharField(max_length=120, help_text="What is told once: the unique key with the receiver.")
    kind = models.CharField(max_length=20, choices=KINDS)
    subject = models.CharField(
        max_length=40, help_text="The request, task, hold or webhook that it is about."
    )
    repository = models.ForeignKey("runs.Repository", null=True, on_delete=models.CASCADE, related_name="+")
    title = models.CharField(max_length=200)
    sentence = models.TextField()
    why = models.TextField(help_text="Why this person is told.")
    href = models.CharField(max_length=300, help_text="The way out: a path of this product.")
    likeness = models.CharField(
        max_length=200, blank=True, help_text="Notices that share it are shown as one line."
    )
    lead = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="followers"
    )
    created_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)
    settled_because = models.TextField(blank=True)
    send_at = models.DateTimeField(null=True, blank=True, help_text="When it goes out; empty: not at all.")
    letter = models.ForeignKey(Letter, null=True, on_delete=models.SET_NULL, related_name="notices")

    class Meta:
        db_table = "notices"
        constraints = [
            models.CheckConstraint(condition=_ONE_RECEIVER, name="notice_has_one_receiver"),
            models.UniqueConstraint(
                fields=["person", "cause"], condition=Q(person__isnull=False), name="a_person_is_told_once"
            ),
            models.UniqueConstraint(
                fields=["room", "cause"], condition=Q(room__isnull=False), name="a_room_is_told_once"
            ),
        ]
        indexes = [
            models.Index(
                fields=["person", "-created_at", "-id"], name="notices_inbox", condition=Q(lead__isnull=True)
            ),
            models.Index(
                fields=["person"],
                name="notices_unread",
                condition=Q(lead__isnull=True, read_at__isnull=True, settled_at__isnull=True),
            ),
            models.Index(fields=["subject"], name="notices_live", condition=Q(settled_at__isnull=True)),
            models.Index(
                fields=["send_at"],
                name="notices_to_send",
                condition=Q(send_at__isnull=False, letter__isnull=True, settled_at__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.title}"


class Webhook(models.Model):
    """An address that is told of domain events. Its secret is derived from its id, never stored."""

    id = models.CharField(primary_key=True, max_length=40, default=webhook_id, editable=False)
    name = models.CharField(max_length=100, unique=True)
    url = models.CharField("address", max_length=1000)
    events = ArrayField(
        models.CharField(max_length=50),
        blank=True,
        default=list,
        help_text="Names of domain events; empty: a task completed, failed, was rejected or needs a person.",
    )
    repositories = models.ManyToManyField(
        "runs.Repository", blank=True, related_name="+", help_text="Empty: all of them."
    )
    owner = models.ForeignKey(
        "runs.Person", on_delete=models.PROTECT, related_name="webhooks",
        help_text="Who is told when it is paused because nothing arrives.",
    )  # fmt: skip
    is_active = models.BooleanField(default=True)
    secret_number = models.PositiveIntegerField(default=1, editable=False)
    old_secret_until = models.DateTimeField(null=True, blank=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False, help_text="One after the other.")
    not_before = models.DateTimeField(null=True, blank=True, editable=False)
    last_success_at = models.DateTimeField(null=True, blank=True, editable=False)
    paused_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_error = models.TextField(blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "webhooks"

    def __str__(self) -> str:
        return self.name

    @property
    def receiver(self) -> str:
        """Its name in the outbox."""
        return f"webhook:{self.pk}"
