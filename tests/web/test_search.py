"""Words find what was asked, what failed and which branch it became, with the database's own search."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import Task
from runs.selectors import search
from runs.selectors.search import tasks_found
from tests import factories as make
from tests.web.test_runs_pages import text

pytestmark = pytest.mark.django_db
DENIED = {"category": "TOOL_FAILED", "reason": "tool", "summary": "Compiler exited with 137 in zoneinfo.py"}


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make.person(PersonRole.VIEWER))
    return client


@pytest.fixture(params=["rare", "common"])
def _asked_either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the index as of rare words, and row by row as of common ones."""
    if request.param == "common":
        monkeypatch.setattr(search, "COMMON", 0)


@pytest.mark.usefixtures("_asked_either_way")
@pytest.mark.parametrize(
    "words",
    ["datetime.utcnow()", "utcnow", "UTCN", "replace clock", "offset everywhere", "leap_seconds", "«utcnow»"],
)
def test_a_title_or_an_instruction_is_found_by_any_of_its_words(viewer: Client, words: str):
    make.task(
        title="Replace datetime.utcnow() in clock",
        instruction="Give it its offset, everywhere: leap-seconds.",
    )
    make.task(title="Something else", instruction="Leave it.")
    page = text(viewer.get("/tasks/", {"q": words}))
    assert "Replace datetime.utcnow()" in page
    assert "Something else" not in page


@pytest.mark.usefixtures("_asked_either_way")
def test_a_failure_and_a_branch_find_their_run_and_their_task(viewer: Client):
    failed = make.run_in(RunStatus.EXECUTING, title="Broke")
    failed.post(Ev.NON_RETRYABLE_FAILURE, failure=DENIED)
    merged = make.run_in(RunStatus.SUCCEEDED, title="Went out")
    for page in ("/tasks/", "/runs/"):
        assert "Broke" in text(viewer.get(page, {"q": "zoneinfo compiler"}))
        assert "Went out" in text(viewer.get(page, {"q": f"agent/{merged.run_id.lower()}"}))
        assert "Went out" not in text(viewer.get(page, {"q": "zoneinfo"}))


@pytest.mark.parametrize(
    "words", ["'", "a:*b", "& | !", "((", "%", "\\", "\0x", "🧹", "x" * 3_000, "a " * 500]
)
def test_no_input_breaks_the_search(viewer: Client, words: str):
    assert viewer.get("/tasks/", {"q": words}).status_code == 200
    assert viewer.get("/runs/", {"q": words}).status_code == 200


def test_the_search_uses_its_index():
    make.task()
    with connection.cursor() as cursor:
        for way in ("seqscan", "indexscan", "indexonlyscan"):  # of a handful of rows, any way is as cheap
            cursor.execute(f"SET LOCAL enable_{way} = off")
        plan = Task.objects.filter(tasks_found("utcnow")).explain()
    for index in ("tasks_by_words", "runs_by_words", "pull_requests_by_words"):
        assert index in plan
