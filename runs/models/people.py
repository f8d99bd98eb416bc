"""People, worker accounts and their tokens (lifecycle contract, section 16; REST contract, "Who calls")."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction

from agentplatform.ids import new_id
from runs.domain.vocabulary import PersonRole


def person_id() -> str:
    """A new person's id."""
    return new_id("per")


def worker_id() -> str:
    """A new worker account's id."""
    return new_id("wrk")


def token_id() -> str:
    """A new token's id."""
    return new_id("tok")


class Person(AbstractUser):
    """Somebody who signs in. Several accounts may belong to one person; four-eyes counts persons."""

    id = models.CharField(primary_key=True, max_length=40, default=person_id, editable=False)
    same_person_as = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="other_accounts",
        help_text="Another account of the same human being; both count as one person at approvals.",
    )

    class Meta:
        db_table = "people"
        verbose_name_plural = "people"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep accounts of one person in a star: a chain would let the ends count as two persons."""
        with transaction.atomic():
            if self.same_person_as is not None:
                root = self.same_person_as.same_person_as or self.same_person_as
                self.same_person_as = None if root.pk == self.pk else root
            super().save(*args, **kwargs)
            if self.same_person_as_id:
                self.other_accounts.update(same_person_as=self.same_person_as_id)

    @property
    def person_key(self) -> str:
        """What four-eyes compares: one value for all accounts of a person."""
        return self.same_person_as_id or self.id


class RoleGrant(models.Model):
    """A role that a person has, everywhere or in one repository."""

    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=20, choices=[(r.value, r.label) for r in PersonRole])
    repository = models.ForeignKey(
        "runs.Repository",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="grants",
        help_text="Leave empty for all repositories.",
    )
    granted_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "role_grants"
        constraints = [
            models.UniqueConstraint(
                fields=["person", "role", "repository"], name="one_grant", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=models.Q(role__in=[r.value for r in PersonRole]), name="known_person_role"
            ),
        ]

    def __str__(self) -> str:
        where = self.repository.name if self.repository else "everywhere"
        return f"{self.person} is {self.role} {where}"


class WorkerAccount(models.Model):
    """A machine that leases runs: an agent, a verifier, a judge, the git integration."""

    id = models.CharField(primary_key=True, max_length=40, default=worker_id, editable=False)
    name = models.CharField(max_length=128, unique=True)
    roles = ArrayField(models.CharField(max_length=20))
    labels = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    owner = models.ForeignKey(
        Person, null=True, blank=True, on_delete=models.PROTECT, related_name="workers",
        help_text="Who answers for this account; at approvals they count as its author.",
    )  # fmt: skip
    repositories = models.ManyToManyField("runs.Repository", blank=True, related_name="workers")
    # What the machine itself said when it last asked for work or began a run.
    offers = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    version = models.CharField(max_length=100, blank=True)
    isolation = models.CharField(max_length=20, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    last_asked_at = models.DateTimeField(null=True, blank=True, help_text="When it last asked for work.")
    disabled_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "worker_accounts"

    def __str__(self) -> str:
        return self.name


class ApiToken(models.Model):
    """A secret shown once; only its SHA-256 is kept. It belongs to a worker account or to a person."""

    id = models.CharField(primary_key=True, max_length=40, default=token_id, editable=False)
    worker = models.ForeignKey(
        WorkerAccount, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens"
    )
    person = models.ForeignKey(Person, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100, blank=True)
    roles = ArrayField(
        models.CharField(max_length=20),
        default=list,
        blank=True,
        help_text="Of its owner's roles these alone; none: all that the owner has at the time.",
    )
    secret_sha256 = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "api_tokens"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(worker__isnull=False, person__isnull=True)
                | models.Q(worker__isnull=True, person__isnull=False),
                name="token_has_one_owner",
            )
        ]

    def __str__(self) -> str:
        return f"{self.id} of {self.worker or self.person}"

    def is_in_force(self, now: datetime) -> bool:
        """Whether it is neither revoked nor past its end."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)
