"""What commands have in common: names on the command line, refusals as messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from runs.domain.errors import Invalid, Refusal
from runs.models import Person, Repository


@contextmanager
def refusals_as_errors() -> Iterator[None]:
    """A refusal becomes the command's error, each wrong field on a line of its own."""
    try:
        yield
    except Invalid as refusal:
        lines = [f"{name}: {'; '.join(messages)}" for name, messages in refusal.errors.items()]
        raise CommandError("\n".join(lines)) from refusal
    except Refusal as refusal:
        raise CommandError(refusal.detail) from refusal


def named_repositories(names: Iterable[str]) -> list[Repository]:
    """The repositories of these names or ids. Raises ``CommandError`` for one that is not there."""
    return [_named_repository(name) for name in dict.fromkeys(names)]


def _named_repository(name: str) -> Repository:
    found = Repository.objects.filter(name=name).first() or Repository.objects.filter(pk=name).first()
    if found is None:
        raise CommandError(f"There is no repository {name}.")
    return found


def named_person(name: str) -> Person:
    """The person of this name or id. Raises ``CommandError``."""
    found = Person.objects.filter(username=name).first() or Person.objects.filter(pk=name).first()
    if found is None:
        raise CommandError(f"There is nobody named {name}.")
    return found


def policy_values(path: Path) -> dict[str, Any]:
    """What a policy file holds; its fields are not checked here. Raises ``CommandError``."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise CommandError(f"{path}: must be a JSON object")
    return values
