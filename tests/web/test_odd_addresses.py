"""Scanners and typing errors: whatever stands in an address, it is answered, and never by a broken page."""

from __future__ import annotations

import pytest
from django.test import Client

from runs.domain.vocabulary import PersonRole
from tests import factories as make

pytestmark = pytest.mark.django_db

LISTS = (
    "ended_on=9999-12-31", "slow=QUEUED:%C2%B2",
    "q=a%00b", "display=%00", "status=%00", "repository=%00", "worker=%00", "label=%00", "cursor=%FF%FE",
    "page=99999999999999999999", "page=-1", "limit=1e9", "ordering=status__id", "since=9999-99-99",
)  # fmt: skip
ODD = {
    "/tasks/": LISTS,
    "/runs/": LISTS,
    "/tasks/new/": ("from=%00", "start=%00", "repository=%00"),
    "/approvals/": ("repository=%00&gate=%00", "cursor=%FF%FE"),
    "/holds/": ("scope=%00&value=%00",),
    "/repositories/": ("page=%00&q=%00",),
    "/workers/": ("page=%00&q=%00",),
    "/outcomes/": ("by=%00", "days=%00", "label=%00", "team=%00&agent=%00", "repository=%00"),
    "/outcomes/export.csv": ("by=%00", "days=9999"),
    "/autonomy/nowhere/": ("by=%00",),
}
IN_ADMIN = (
    "/admin/runs/run/?q=%00", "/admin/runs/run/?o=99.-1", "/admin/runs/run/?p=99999999999999999999",
    "/admin/runs/run/?status__id=1", "/admin/runs/run/?password=1", "/admin/runs/run/%00/change/",
    "/admin/runs/refusal/99999999999999999999/change/",
)  # fmt: skip
IDS = ("run_%00", "run_" + "9" * 300, "99999999999999999999", "%F0%9F%98%80", "run_1%0d%0aX-A:b")


@pytest.fixture
def anybody(client: Client) -> Client:
    client.force_login(make.person(PersonRole.ADMIN, is_staff=True, is_superuser=True))
    make.queued_run()
    return client


def test_no_query_breaks_a_page(anybody: Client):
    for page, queries in ODD.items():
        for query in queries:
            assert anybody.get(f"{page}?{query}").status_code in (200, 302, 400, 404), (page, query)


def test_no_query_breaks_the_admin(anybody: Client):
    for address in IN_ADMIN:
        assert anybody.get(address).status_code in (200, 302, 400, 403, 404), address


def test_what_cannot_be_an_id_is_not_there(anybody: Client):
    for page in ("/runs/", "/tasks/", "/approvals/", "/repositories/", "/artifacts/"):
        for row_id in IDS:
            assert anybody.get(f"{page}{row_id}/").status_code == 404, (page, row_id)
