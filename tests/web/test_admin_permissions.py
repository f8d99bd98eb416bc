"""Admin by role: whoever is not an admin everywhere passes no door of it, known or guessed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import URLPattern, URLResolver

from runs.domain.vocabulary import PersonRole
from tests import factories as make

pytestmark = pytest.mark.django_db

#: Addresses of admin that need no right: the door leads to the sign-in, signing out is for everybody.
DOORS = {"login/", "logout/"}


def addresses() -> Iterator[str]:
    """Every address of admin, with something in the place of each argument."""
    for route in _routes(admin.site.get_urls()):
        filled = re.sub(r"<(int|path|str):\w+>", lambda found: "1" if found[1] == "int" else "x", route)
        yield re.sub(r"\(\?P<app_label>.*\)/\$|\(\?P<url>\.\*\)\$", "runs/", filled).replace("^", "")


def _routes(patterns: list[Any], prefix: str = "") -> Iterator[str]:
    for pattern in patterns:
        here = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, here)
        elif isinstance(pattern, URLPattern):
            yield here


def test_there_are_addresses():
    found = set(addresses())
    assert {"", "runs/run/", "runs/policy/1/version/", "runs/person/x/change/", "runs/"} <= found
    assert len(found) > 150


def _somebody(kind: str) -> Client:
    browser = Client()
    if kind == "admin of one repository":
        browser.force_login(make.person(PersonRole.ADMIN, repository=make.repository()))
    elif kind == "operator with a staff flag":
        browser.force_login(make.person(PersonRole.OPERATOR, is_staff=True))
    return browser


@pytest.mark.parametrize("kind", ["stranger", "admin of one repository", "operator with a staff flag"])
def test_who_is_no_admin_everywhere_sees_and_changes_nothing(kind):
    """Operators have the most of the others' rights. Whatever a staff flag says, it gives none."""
    browser, has_flag = _somebody(kind), kind == "operator with a staff flag"
    for address in sorted(set(addresses()) - DOORS)[:: 1 if has_flag else 9]:
        asked: list[Any] = [browser.get(f"/admin/{address}")]
        if has_flag:
            asked.append(browser.post(f"/admin/{address}", {"reason": "x", "post": "yes"}))
        for answer in asked:
            assert (answer.status_code, answer.url.split("?")[0]) == (302, "/admin/login/"), address
    refused: Any = browser.get("/admin/login/?next=/admin/")
    assert refused.status_code == (302 if kind == "stranger" else 403)
