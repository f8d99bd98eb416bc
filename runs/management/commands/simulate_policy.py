"""`manage.py simulate_policy`: what another policy would have decided."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from runs.domain.errors import Invalid
from runs.domain.policy import check_values
from runs.domain.simulation_compare import Difference
from runs.management.arguments import named_repositories, policy_values, refusals_as_errors
from runs.models import Repository, Run
from runs.selectors.policies import effective_policies, effective_with
from runs.selectors.simulation import SimulatedRun, recorded_runs, simulate_rejections, simulate_runs


class Command(BaseCommand):
    help = (
        "Ask every recorded decision of a repository again, under another policy, and list those that would "
        "differ. Nothing is changed."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("repository", help="its name or id")
        parser.add_argument(
            "--policy",
            type=Path,
            metavar="FILE.json",
            help="rules in place of the repository's own policy; without it, those in force are simulated",
        )
        parser.add_argument("--newest", type=int, metavar="N", help="the newest N runs alone")

    def handle(self, *args: Any, **options: Any) -> None:
        (repository,) = named_repositories([options["repository"]])
        in_force = effective_policies(repository_ids=[repository.pk])
        policies = in_force
        if options["policy"]:
            values = policy_values(options["policy"])
            with refusals_as_errors():
                if wrong := check_values(values):
                    raise Invalid(wrong)
            policies = effective_with(repository_ids=[repository.pk], policy=repository.policy, values=values)
        runs = _runs(repository, options["newest"])
        found: Counter[str] = Counter()
        for one in simulate_runs(runs, policies=policies, in_force=in_force):
            found.update(_kinds(one))
            for line in _lines(one):
                self.stdout.write(line)
        for intake in simulate_rejections([repository.pk], policies):
            why = " ".join(intake.reasons)
            self.stdout.write(f"{intake.task.pk} {intake.task.title}")
            self.stdout.write(f"  was rejected; then: {f'rejected: {why}' if why else 'taken'}")
            found["intake"] += 1
        self.stdout.write(_summary(repository, found))


def _runs(repository: Repository, newest: int | None) -> Iterator[Run]:
    rows = recorded_runs([repository.pk]).defer("state")
    return iter(rows[:newest]) if newest else rows.iterator(chunk_size=200)


def _kinds(one: SimulatedRun) -> Iterator[str]:
    yield "runs"
    if one.simulated.is_unchanged:
        yield "unchanged"
    if one.simulated.differences:
        yield "different"
    if one.simulated.undecidable:
        yield "undecidable"


def _lines(one: SimulatedRun) -> Iterator[str]:
    """The run, then each decision that would differ, then why the rest cannot be decided."""
    if one.simulated.is_unchanged:
        return
    yield f"{one.run.pk} {one.run.task.title}"
    for difference in one.simulated.differences:
        yield from _difference(difference, already=difference in one.already)
    if one.simulated.undecidable:
        yield f"  undecidable: {one.simulated.undecidable}"


def _difference(difference: Difference, *, already: bool) -> Iterator[str]:
    judged = f", judged by {difference.policy_version}" if difference.policy_version else ""
    also = " (the policy in force says so, too)" if already else ""
    yield f"  event {difference.sequence} {difference.event} at {difference.at}{judged}{also}"
    yield f"    was: {difference.recorded}; then: {difference.simulated}"
    for change in difference.changes:
        yield f"    {change.what}: {change.recorded} → {change.simulated}"


def _summary(repository: Repository, found: Counter[str]) -> str:
    told = (
        f"{found['runs']} runs of {repository.name}",
        f"{found['unchanged']} unchanged, {found['different']} with decisions that would differ",
        f"{found['undecidable']} undecidable.",
    )
    counts = f"{told[0]}: {told[1]}, {told[2]}"
    intake = f" {found['intake']} rejected tasks would fare otherwise." if found["intake"] else ""
    return counts + intake
