"""How it goes: charts that are true, each leading to the runs behind it; exports that nobody's sheet runs."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import Repository, RoleGrant, RunOutcome
from runs.rebuild import assert_folds, rebuild
from runs.selectors.export import HEADINGS, safe_cell
from tests import factories as make
from tests.web.test_runs_pages import text

pytestmark = pytest.mark.django_db
P, S = PersonRole, RunStatus
DENIED = {"category": "POLICY_DENIED", "reason": "denied", "summary": "That tool is forbidden."}


@pytest.fixture
def lead(client: Client) -> Client:
    client.force_login(make.person(P.OPERATOR, name="lena"))
    return client


def sent_back(where: Repository, **fields: Any) -> make.Holder:
    """A run that the checks sent back once, then ended."""
    holder = make.run_in(S.VERIFYING, where=where, **fields)
    holder.check(exit_code=1, feedback="test_now failed")
    holder.post(Ev.NON_RETRYABLE_FAILURE, failure=DENIED)
    return holder


def figures(client: Client, query: str = "") -> str:
    page = client.get(reverse("home") + query).content.decode()
    return page[page.index('id="figures"') :]


def links(page: str) -> list[str]:
    found = (unescape(href) for href in re.findall(r'href="([^"]+)"', page))
    return list(dict.fromkeys(href for href in found if href.startswith(reverse("runs") + "?")))


def test_every_figure_leads_to_the_runs_that_it_counts(lead: Client):
    where = make.repository("clock")
    failed = sent_back(where, title="Went wrong").run_id
    make.run_in(S.SUCCEEDED, where=where, title="Went well")
    page = figures(lead)
    found = {href: text(lead.get(href)) for href in links(page)}
    behind = {href for href, shown in found.items() if failed in lead.get(href).content.decode()}
    for wanted in (
        "failure_category=POLICY_DENIED",
        "sent_back=verifier",
        "repository=clock",
        "agent=script",
    ):
        assert any(wanted in href for href in behind), wanted
    assert not any("sent_back=verifier" in href and "Went well" in shown for href, shown in found.items())
    assert any("ended_on=" in href and "Went well" in shown for href, shown in found.items())
    assert any("slow=QUEUED" in href or "slow=" in href for href in found) or "p95" not in page


def test_charts_name_what_they_draw_and_style_nothing_inline(lead: Client):
    sent_back(make.repository())
    page = figures(lead)
    assert re.search(r'aria-label="\w{3} \d+ \w{3}: 1 failed"', page)
    assert 'style="' not in page
    assert "1 of 1 runs, 1 repair" in page


def test_mine_are_repositories_of_my_roles_else_those_i_asked_work_in(client: Client):
    mine, other = make.repository("mine"), make.repository("other")
    alice = make.person(P.SUBMITTER, name="alice")
    make.run_in(S.SUCCEEDED, where=mine, by=alice)
    make.run_in(S.SUCCEEDED, where=other)
    client.force_login(alice)
    assert "2 in 30 days" in text(client.get("/"))
    assert "1 in 7 days" in text(client.get("/?mine=1&days=7"))
    keeper = make.person(P.VIEWER, name="keeper")
    RoleGrant.objects.create(person=keeper, role=P.OPERATOR.value, repository=other)
    client.force_login(keeper)
    assert "in 30 days" in text(client.get("/?mine=1"))
    rows = text(client.get("/runs/?mine=1"))
    assert "other · run 1" in rows
    assert "mine · run 1" not in rows


def test_nobody_counts_what_they_may_not_see(client: Client):
    make.run_in(S.SUCCEEDED, where=make.repository("secret"))
    client.force_login(make.person(P.VIEWER, repository=make.repository("open")))
    page = figures(client)
    assert "secret" not in page
    assert "No run ended" in page


def test_a_refresh_leaves_the_charts_alone(lead: Client):
    assert 'id="figures"' not in lead.get("/", headers={"HX-Request": "true"}).content.decode()


def test_the_export_has_every_run_of_the_list_and_says_how_many(lead: Client):
    where = make.repository("clock")
    holder = sent_back(where, title='=HYPERLINK("http://198.51.100.7","x")', labels=["a", "b"])
    make.queued_run(where, title="Waits, and says so")
    answer = lead.get(reverse("runs_csv"))
    rows = list(csv.DictReader(io.StringIO(answer.getvalue().decode())))
    assert answer["X-Rows"] == "2" == str(len(rows))
    assert tuple(rows[0]) == HEADINGS
    told = {row["run"]: row for row in rows}[holder.run_id]
    assert told["title"].startswith("'=HYPERLINK")
    assert (told["state"], told["verifier_repairs"], told["judge_repairs"]) == ("Failed", "1", "")
    only = lead.get(reverse("runs_csv") + "?display=failed").getvalue().decode()
    assert "Waits, and says so" not in only


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_cell_is_a_formula(begin):
    assert safe_cell(f"{begin}1+1") == f"'{begin}1+1"
    assert safe_cell("1+1") == "1+1"


def test_the_outcome_is_a_projection_that_its_log_accounts_for():
    holder = sent_back(make.repository())
    assert_folds(holder.run_id)
    RunOutcome.objects.filter(run_id=holder.run_id).update(verifier_repairs=7)
    assert [d.field for d in rebuild(holder.run_id)] == ["verifier_repairs"]
    assert_folds(holder.run_id)


def test_figures_take_the_same_number_of_queries_for_many_runs(lead: Client):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    where = make.repository()

    def counted() -> int:
        with CaptureQueriesContext(connection) as queries:
            lead.get("/")
        return len(queries)

    sent_back(where)
    before = counted()
    for _ in range(3):
        sent_back(where)
    assert counted() <= before
