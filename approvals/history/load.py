"""Fills a demonstration with a past: so many days of work, the same for the same day and seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from django.conf import settings

from agentplatform.clock import database_now
from approvals.history.posting import LABEL, Past
from approvals.history.stories import PER_DAY, PLACES, REQUESTS, STORIES, Place
from runs import auth, service
from runs.demo.load import is_demo_loaded
from runs.demo.repository import make_remote
from runs.domain.errors import NotAllowedNow
from runs.domain.vocabulary import MACHINE_ROLES
from runs.mirrors.process import checked, run_git
from runs.models import Person, Repository, WorkerAccount

_WORKER: Final = "past-worker"
_ASKERS: Final = ("sam", "lena")
_REVIEWER: Final = "rita"
#: A run of the past sends no heartbeats: one lease outlives it.
_POLICY: Final = {"lease_seconds": 3_600, "heartbeat_interval_seconds": 60}


def history_post(*, days: int, seed: int = 1) -> Iterator[int]:
    """Post the runs of the last ``days`` before today, oldest first; yields how many are done after each.

    The whole number to come is ``history_size``. Raises ``NotAllowedNow`` in production, without the
    demonstration, and where there is a past already.
    """
    _check()
    dice = random.Random(seed)  # noqa: S311  a demonstration, not a secret
    worker = _worker(_places())
    people = {name: auth.of_person(Person.objects.get(username=name)) for name in (*_ASKERS, _REVIEWER)}
    commits = {place.name: _head(Repository.objects.get(name=place.name)) for place in PLACES}
    for number, (place, at) in enumerate(_plan(days, dice), start=1):
        past = Past(
            repository=Repository.objects.get(name=place.name),
            asker=people[dice.choice(_ASKERS)],
            reviewer=people[_REVIEWER],
            worker=worker,
            base_commit=commits[place.name],
            dollars=place.dollars,
            now=at,
            dice=dice,
        )
        story = dice.choices(STORIES, weights=[story.weight for story in STORIES])[0]
        past.post(dice.choice(REQUESTS), story)
        yield number


def history_size(*, days: int) -> int:
    """How many tasks there will be."""
    return sum(PER_DAY[day.weekday()] for day in _days(days))


def _check() -> None:
    if settings.PRODUCTION:
        raise NotAllowedNow("Demonstration data is refused in production.")
    if not is_demo_loaded():
        raise NotAllowedNow("A past belongs to the demonstration: load it first (manage.py load_demo).")
    if WorkerAccount.objects.filter(name=_WORKER).exists():
        raise NotAllowedNow("This demonstration has a past already.")


def _places() -> list[Repository]:
    folder = Path(settings.DATA_DIR) / "demo"
    return [
        service.repository_create(name=place.name, url=make_remote(_free(folder, place)), policy=_POLICY)
        for place in PLACES
    ]


def _free(folder: Path, place: Place) -> Path:
    """A folder of its own, as for the demonstration's remote."""
    number = 1
    while (folder / f"{place.name}-{number}.git").exists():
        number += 1
    return folder / f"{place.name}-{number}.git"


def _worker(places: list[Repository]) -> auth.Principal:
    roles = [role.value for role in MACHINE_ROLES]
    return auth.of_worker(
        service.worker_create(name=_WORKER, roles=roles, repositories=places, labels=[LABEL])
    )


def _head(repository: Repository) -> str:
    place = repository.url.removeprefix("file://")
    return checked(run_git("rev-parse", "HEAD", cwd=place)).decode().strip()


def _days(days: int) -> list[datetime]:
    midnight = database_now().replace(hour=0, minute=0, second=0, microsecond=0)
    return [midnight - timedelta(days=number) for number in range(days, 0, -1)]


def _plan(days: int, dice: random.Random) -> Iterator[tuple[Place, datetime]]:
    """Where and when each task is asked for: within working hours, oldest first."""
    for day in _days(days):
        minutes = sorted(7 * 60 + 600 * dice.random() for _ in range(PER_DAY[day.weekday()]))
        for minute in minutes:
            place = dice.choices(PLACES, weights=[place.weight for place in PLACES])[0]
            yield place, day + timedelta(minutes=minute)
