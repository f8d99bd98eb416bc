"""Fills an empty database; never another one, and never in production."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import transaction

from runs import auth, service
from runs.demo.campaign import make_campaign
from runs.demo.people import LENA, PEOPLE, SAM, DemoPerson
from runs.demo.repository import NAME, POLICY, make_remote
from runs.demo.tasks import TASKS
from runs.domain.commands import Caller
from runs.domain.errors import NotAllowedNow
from runs.domain.vocabulary import Role
from runs.models import Person, Repository, Task, WorkerAccount

_BY: Final = Caller("", "demonstration", frozenset())
_WORKER: Final = "reference-worker"
_WORKER_ROLES: Final = (Role.WORKER, Role.AGENT_RUNTIME, Role.VERIFIER, Role.JUDGE)


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody or something to sign in as, and the secret to do it with."""

    name: str
    what: str
    secret: str


def is_empty() -> bool:
    """Whether nobody works here yet. Worker accounts alone do not count: they ask for nothing."""
    return not any(model.objects.exists() for model in (Person, Repository, Task))


def is_demo_loaded() -> bool:
    """Whether this database is a demonstration: its repository lies where only this module puts one.

    The data folder alone proves nothing: it may have served another database before.
    """
    return Repository.objects.filter(name=NAME, url__startswith=_folder().as_uri() + "/").exists()


def accounts_file() -> Path:
    """Where the accounts of a loaded demonstration are kept, readable by this user alone."""
    return Path(settings.DATA_DIR) / "demo-accounts"


def demo_load() -> str:
    """People, a repository with a history, requests that a worker can start on at once, and a campaign over
    it and two neighbours: all or nothing.

    Returns the accounts as lines of text, which ``accounts_file`` keeps. Raises ``NotAllowedNow`` in
    production and where somebody works already.
    """
    if settings.PRODUCTION:
        raise NotAllowedNow("Demonstration data is refused in production.")
    if not is_empty():
        raise NotAllowedNow("Demonstration data goes into an empty database only.")
    remote = _new_place()
    url = make_remote(remote)
    with transaction.atomic():
        accounts = _in_words([*(_person(person) for person in PEOPLE), *_worker()])
        repository = service.repository_create(name=NAME, url=url, policy=POLICY, by=_BY)
        sam = auth.of_person(Person.objects.get(username=SAM.name)).caller
        for data in TASKS:
            service.task_create(data={**data, "submit": True}, repository=repository, by=sam)
        lena = auth.of_person(Person.objects.get(username=LENA.name)).caller
        make_campaign(remote, by=sam, paused_by=lena)
        # Before the commit: a crash in between must not leave passwords that nobody knows.
        _keep(accounts)
    return accounts


def _person(person: DemoPerson) -> Account:
    password = secrets.token_urlsafe(9)
    roles = [role.value for role in person.roles]
    service.person_create(name=person.name, roles=roles, password=password, by=_BY)
    return Account(person.name, f"{person.part}: {person.does}", password)


def _worker() -> list[Account]:
    if WorkerAccount.objects.filter(roles__contains=[Role.WORKER.value]).exists():
        return []
    worker = service.worker_create(name=_WORKER, roles=[role.value for role in _WORKER_ROLES], by=_BY)
    _, secret = service.token_create(by=_BY, worker=worker, name="demonstration")
    return [Account(_WORKER, "a worker's token", secret)]


def _folder() -> Path:
    return Path(settings.DATA_DIR) / "demo"


def _new_place() -> Path:
    """A folder of its own: an earlier database in the same data folder may have left its remote."""
    number = 1
    while (_folder() / f"{NAME}-{number}.git").exists():
        number += 1
    return _folder() / f"{NAME}-{number}.git"


def _in_words(accounts: Iterable[Account]) -> str:
    lines = [f"  {account.name:<5} {account.secret}  {account.what}" for account in accounts]
    return "\n".join(["Demonstration accounts, each with its password:", *lines])


def _keep(accounts: str) -> None:
    accounts_file().unlink(missing_ok=True)  # an older file keeps the mode that it was made with
    descriptor = os.open(accounts_file(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(accounts + "\n")
