"""Repositories and the policies that hold for them (lifecycle contract, section 16)."""

from __future__ import annotations

from django.db import models

from agentplatform.ids import new_id


def repository_id() -> str:
    """A new repository's id."""
    return new_id("repo")


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
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "repositories"
        verbose_name_plural = "repositories"

    def __str__(self) -> str:
        return self.name
