"""Who owns what, who is away, and who was asked about a request."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q

from agentplatform.ids import new_id


def absence_id() -> str:
    """A new absence's id."""
    return new_id("awy")


class Team(models.Model):
    """Several people who are asked together. It gives no rights: those are roles of each person."""

    name = models.CharField(max_length=100, unique=True)
    members = models.ManyToManyField("runs.Person", blank=True, related_name="teams")

    class Meta:
        db_table = "teams"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class _PersonOrTeam(models.Model):
    person = models.ForeignKey(
        "runs.Person", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="+")

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return str(self.team or self.person)


_EITHER = Q(person__isnull=False, team__isnull=True) | Q(person__isnull=True, team__isnull=False)


class Handle(_PersonOrTeam):
    """Who is meant where a CODEOWNERS file says ``@ann``, ``@org/team`` or ``ann@example.org``."""

    text = models.CharField(
        max_length=200, unique=True, help_text="As CODEOWNERS files write it: @name, @org/team or an address."
    )

    class Meta:
        db_table = "handles"
        constraints = [models.CheckConstraint(condition=_EITHER, name="handle_means_one")]

    def __str__(self) -> str:
        return self.text


class RepositoryOwner(_PersonOrTeam):
    """Who is asked where the repository's CODEOWNERS names nobody."""

    repository = models.ForeignKey("runs.Repository", on_delete=models.CASCADE, related_name="owners")

    class Meta:
        db_table = "repository_owners"
        constraints = [
            models.CheckConstraint(condition=_EITHER, name="owner_is_one"),
            models.UniqueConstraint(
                fields=["repository", "person", "team"], name="one_repository_owner", nulls_distinct=False
            ),
        ]


class Absence(models.Model):
    """Somebody is away, and perhaps says who is asked instead.

    It hands on questions, never rights: the one who stands in decides as who they are, by their own roles.
    """

    id = models.CharField(primary_key=True, max_length=40, default=absence_id, editable=False)
    person = models.ForeignKey("runs.Person", on_delete=models.CASCADE, related_name="absences")
    stand_in = models.ForeignKey(
        "runs.Person",
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Who is asked instead, by their own rights. Empty: the other owners.",
    )
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    handed_over_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "absences"
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("starts_at")), name="absence_ends_after_it_starts"
            ),
            models.CheckConstraint(
                condition=Q(stand_in__isnull=True) | ~Q(stand_in=F("person")), name="stand_in_is_another"
            ),
        ]
        indexes = [models.Index(fields=["person", "ends_at"], name="absences_by_person")]

    def __str__(self) -> str:
        return f"{self.person} from {self.starts_at:%Y-%m-%d} to {self.ends_at:%Y-%m-%d}"


class AskedPerson(models.Model):
    """One person whose turn a request is, and why. A request without any is everybody's who may decide."""

    request = models.ForeignKey("approvals.ApprovalRequest", on_delete=models.PROTECT, related_name="asked")
    person = models.ForeignKey("runs.Person", on_delete=models.PROTECT, related_name="+")
    why = models.TextField()
    stands_in_for = models.ForeignKey("runs.Person", null=True, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()

    class Meta:
        db_table = "asked_people"
        verbose_name_plural = "asked people"
        constraints = [models.UniqueConstraint(fields=["request", "person"], name="asked_once")]

    def __str__(self) -> str:
        return f"{self.person}: {self.why}"
