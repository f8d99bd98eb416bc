"""People, worker accounts and repositories: made here, whoever asks for them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from agentplatform.ids import new_id
from runs import store
from runs.domain.commands import CONTROL_PLANE, Caller
from runs.domain.errors import Invalid
from runs.domain.importing import wrong_name
from runs.domain.places import NO_LOGIN, has_login
from runs.domain.policy import check_values
from runs.domain.vocabulary import MACHINE_ROLES, PersonRole
from runs.models import Person, Policy, Repository, RoleGrant, WorkerAccount
from runs.models.audit import Act
from runs.service.audit import audit_record, snapshot

PARTS_OF_PERSON: Final = ("grants",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,99}")
#: A remote helper (``ext::sh …``) runs a program, and a leading dash is an option: neither is an address.
_ADDRESS = re.compile(r"(?!-)(?!.*::)[^\s\x00-\x1f]{1,2000}")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Invalid({"name": ["must be 1 to 128 of A-Z a-z 0-9 . _ @ + -, a letter or digit first"]})


@transaction.atomic
def person_create(
    *,
    name: str,
    roles: Iterable[str],
    repositories: Iterable[Repository] = (),
    password: str | None = None,
    by: Caller = CONTROL_PLANE,
) -> Person:
    """Somebody with ``roles`` everywhere, or in ``repositories`` alone; without a password no sign-in.

    Raises ``Invalid`` for a name that is taken, an unknown role, a weak password.
    """
    _check_name(name)
    granted = list(dict.fromkeys(roles))
    if not granted or (unknown := set(granted) - {role.value for role in PersonRole}):
        said = f"unknown: {', '.join(sorted(unknown))}; " if granted else ""
        raise Invalid({"roles": [f"{said}name at least one of {', '.join(PersonRole)}"]})
    if Person.objects.filter(username__iexact=name).exists():
        raise Invalid({"name": [f"{name} exists already"]})
    person = Person(username=name)
    if password is not None:
        try:
            validate_password(password, person)
        except ValidationError as error:
            raise Invalid({"password": list(error.messages)}) from error
    person.set_password(password)
    everywhere: list[Repository | None] = [*repositories] or [None]
    # Django's admin asks for these two; what it then allows is decided by role.
    person.is_staff = person.is_superuser = PersonRole.ADMIN.value in granted and everywhere == [None]
    person.save()
    RoleGrant.objects.bulk_create(
        [RoleGrant(person=person, role=role, repository=where) for role in granted for where in everywhere]
    )
    audit_record(by=by, act=Act.ADDED, row=person, after=snapshot(person, parts=PARTS_OF_PERSON))
    return person


@transaction.atomic
def worker_create(
    *,
    name: str,
    roles: Iterable[str],
    repositories: Iterable[Repository] = (),
    labels: Iterable[str] = (),
    owner: Person | None = None,
    by: Caller = CONTROL_PLANE,
) -> WorkerAccount:
    """A worker account. Raises ``Invalid``."""
    _check_name(name)
    granted = list(dict.fromkeys(roles))
    if not granted or set(granted) - {role.value for role in MACHINE_ROLES}:
        words = ", ".join(role.value for role in MACHINE_ROLES)
        raise Invalid({"roles": [f"name at least one of {words}, and nothing else"]})
    offered = list(dict.fromkeys(labels))
    if not all(_LABEL.fullmatch(label) for label in offered):
        raise Invalid({"labels": ["each must be 1 to 100 of A-Z a-z 0-9 . _ / : -"]})
    if WorkerAccount.objects.filter(name=name).exists():
        raise Invalid({"name": [f"{name} exists already"]})
    worker = WorkerAccount.objects.create(name=name, roles=granted, labels=offered, owner=owner)
    worker.repositories.set(list(repositories))
    audit_record(by=by, act=Act.ADDED, row=worker, after=snapshot(worker))
    return worker


@transaction.atomic
def repository_create(
    *,
    name: str,
    url: str,
    base_branch: str = "main",
    provider: str = "git",
    policy: Mapping[str, Any] | None = None,
    inherits: str = Policy.PLATFORM,
    by: Caller = CONTROL_PLANE,
) -> Repository:
    """A repository with a policy of its own, which inherits from the policy named ``inherits``.

    Raises ``Invalid``; the policy's fields are named one by one.
    """
    values = dict(policy or {})
    wrong = {f"policy.{field}": messages for field, messages in check_values(values).items()}
    wrong |= wrong_address(url, provider)
    if said := wrong_name(name):
        wrong["name"] = [said]
    above = policy_above(inherits)
    if above is None:
        wrong["inherits"] = [f"there is no policy {inherits}"]
    if Repository.objects.filter(name=name).exists():
        wrong["name"] = [f"{name} exists already"]
    if wrong:
        raise Invalid(wrong)
    own = Policy.objects.create(name=own_policy_names([name])[name], inherits=above)
    store.add_policy_version(own, values, by=by.name)
    made = Repository.objects.create(
        name=name, url=url, base_branch=base_branch, provider=provider, policy=own
    )
    audit_record(by=by, act=Act.ADDED, row=made, after=snapshot(made) | {"values": values})
    return made


def policy_above(name: str) -> Policy | None:
    """The policy of this name; the platform's is made where there is none yet."""
    if name == Policy.PLATFORM:
        return Policy.objects.get_or_create(name=Policy.PLATFORM)[0]
    return Policy.objects.filter(name=name).first()


def own_policy_names(names: Collection[str]) -> dict[str, str]:
    """Name of a new repository → the name of its own policy. One query.

    Who had the name before keeps the policy of that name: runs name its versions for ever.
    """
    wanted = {name: f"repository/{name}" for name in names}
    taken = set(Policy.objects.filter(name__in=wanted.values()).values_list("name", flat=True))
    return {name: f"{own} {new_id('policy')}" if own in taken else own for name, own in wanted.items()}


def wrong_address(url: str, provider: str) -> dict[str, list[str]]:
    """What is wrong with an address that git is to clone, by field."""
    wrong: dict[str, list[str]] = {}
    if not _ADDRESS.fullmatch(url):
        wrong["url"] = ["must be an address that git clones, or a folder"]
    elif has_login(url):
        wrong["url"] = [NO_LOGIN]
    if provider not in Repository.PROVIDERS:
        wrong["provider"] = [f"must be one of {', '.join(Repository.PROVIDERS)}"]
    return wrong
