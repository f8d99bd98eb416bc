"""Repositories and the policies that hold for them (lifecycle contract, section 16)."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Func, Value
from django.db.models.functions import Now, Replace

from agentplatform.ids import new_id
from runs.domain.places import NO_LOGIN, has_login


def repository_id() -> str:
    """A new repository's id."""
    return new_id("repo")


def _like(field: str) -> Func:
    """The text of a glob as LIKE knows it."""
    steps = (("\\", "\\\\"), ("%", "\\%"), ("_", "\\_"), ("*", "%"), ("?", "_"))
    found: Any = F(field)
    for before, after in steps:
        found = Replace(found, Value(before), Value(after))
    return found  # type: ignore[no-any-return]


class Policy(models.Model):
    """A named set of rules that may inherit from another; lower ones may only be stricter.

    Its values live in versions; the newest holds. The policy named "platform" is above all others.
    """

    PLATFORM = "platform"

    name = models.CharField(max_length=200, unique=True)
    inherits = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="heirs"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "policies"
        verbose_name_plural = "policies"

    def __str__(self) -> str:
        return self.name


class PolicyVersion(models.Model):
    """One change of a policy. Never edited: a run names the version that it was judged by."""

    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    values = models.JSONField(default=dict)
    changed_by = models.CharField(max_length=200, blank=True)
    changed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "policy_versions"
        constraints = [models.UniqueConstraint(fields=["policy", "number"], name="one_policy_version")]
        ordering = ["policy_id", "-number"]

    def __str__(self) -> str:
        return f"{self.policy}@{self.number}"


class PolicyRule(models.Model):
    """Puts a policy over every repository whose name fits a pattern, whenever it was brought in.

    All rules that fit hold, and each can only tighten. Where two say things of which only one can hold, the
    one with the higher position is nearer to the repository; the repository's own policy is the nearest.
    """

    pattern = models.CharField(
        max_length=200,
        help_text="Of names: * stands for any characters, slashes too, ? for one. Example: acme/pay-*",
    )
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="rules")
    position = models.PositiveIntegerField(
        default=100, help_text="Higher is nearer to the repository; of equals, the newer rule."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    #: The pattern for LIKE, made by the database, so that it can never be another's.
    name_like = models.GeneratedField(
        expression=_like("pattern"), output_field=models.CharField(max_length=401), db_persist=True
    )

    class Meta:
        db_table = "policy_rules"
        constraints = [
            models.UniqueConstraint(
                fields=["pattern", "policy"],
                name="one_rule_per_pattern",
                violation_error_message="There is this rule already.",
            )
        ]
        ordering = ["position", "id"]

    def __str__(self) -> str:
        return f"{self.pattern} → {self.policy}"


class Repository(models.Model):
    """A git repository that tasks may change."""

    PROVIDERS = ("git", "github", "gitlab", "gitea")

    id = models.CharField(primary_key=True, max_length=40, default=repository_id, editable=False)
    name = models.CharField(max_length=200, unique=True)
    url = models.CharField(max_length=2000)
    provider = models.CharField(max_length=20, default="git", choices=[(p, p) for p in PROVIDERS])
    base_branch = models.CharField(max_length=250, default="main")
    policy = models.ForeignKey(Policy, on_delete=models.PROTECT, related_name="repositories")
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(
        null=True, blank=True, help_text="It takes no new tasks. Runs that are under way go on."
    )
    #: The forge's host and its own id there: by it a repository is known again, whatever it is called.
    forge_key = models.CharField(max_length=300, blank=True, editable=False)
    #: What was said at the last import of the fields that follow the forge.
    forge_says = models.JSONField(default=dict, editable=False)

    class Meta:
        db_table = "repositories"
        verbose_name_plural = "repositories"
        constraints = [
            models.UniqueConstraint(
                fields=["forge_key"], condition=~models.Q(forge_key=""), name="one_repository_per_forge_key"
            )
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Whoever sees the repository sees its address."""
        if has_login(self.url):
            raise ValidationError({"url": NO_LOGIN})


class Organisation(models.Model):
    """An organisation or group of a forge whose repositories are brought in and kept in step."""

    FORGES = ("github", "gitlab", "gitea")

    provider = models.CharField(max_length=20, choices=[(p, p) for p in FORGES])
    host = models.CharField(
        max_length=250,
        blank=True,
        validators=[RegexValidator(r"^[a-z0-9.-]+(:\d+)?$", "A host alone, such as git.example.org.")],
        help_text="Of a forge of your own, such as git.example.org; empty: github.com, gitlab.com, gitea.com",
    )
    path = models.CharField(
        max_length=200,
        validators=[RegexValidator(r"^[\w.-]+(/[\w.-]+)*$", "A name or a path, such as acme or acme/web.")],
        help_text="Its name there, or a group's path: acme, acme/web",
    )
    prefix = models.CharField(
        max_length=60, blank=True, help_text="Put before each name, where two forges have the same names"
    )
    only = models.CharField(
        max_length=200, default="*", help_text="Pattern of names to bring in; * stands for any characters"
    )
    inherits = models.ForeignKey(
        Policy, null=True, blank=True, on_delete=models.PROTECT, related_name="organisations",
        help_text="What the policies of new repositories inherit from; empty: platform",
    )  # fmt: skip
    created_at = models.DateTimeField(auto_now_add=True)
    kept = models.BooleanField("kept in step", default=True, help_text="Look at it again each hour")
    next_look_at = models.DateTimeField(db_default=Now(), editable=False)
    looked_at = models.DateTimeField(null=True, blank=True, editable=False)
    found = models.TextField(blank=True, editable=False)  #: what the last look came to, in words

    class Meta:
        db_table = "organisations"
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "host", "path"],
                name="one_organisation",
                violation_error_message="It is brought in already.",
            )
        ]

    def __str__(self) -> str:
        return f"{self.path} at {self.host or self.provider}"
