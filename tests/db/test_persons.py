"""Several accounts of one human being count as one person, however they were tied together."""

from __future__ import annotations

import pytest

from runs.models import Person

pytestmark = pytest.mark.django_db


def _account(name: str, same_as: Person | None = None) -> Person:
    return Person.objects.create(username=name, same_person_as=same_as)


def _key(person: Person) -> str:
    return Person.objects.get(pk=person.pk).person_key


def test_an_account_of_an_account_is_the_same_person():
    first = _account("ann")
    second = _account("ann-admin", first)
    third = _account("ann-bot", second)
    assert _key(first) == _key(second) == _key(third)


def test_tying_a_person_with_accounts_to_another_takes_them_along():
    ann, other = _account("ann"), _account("ann-old")
    spare = _account("ann-spare", other)
    other.same_person_as = ann
    other.save()
    assert _key(ann) == _key(other) == _key(spare)


def test_two_accounts_that_name_each_other_are_one_person():
    ann = _account("ann")
    other = _account("ann-old", ann)
    ann.same_person_as = other
    ann.save()
    assert _key(ann) == _key(other)
