"""Lists: stable pages, filters, bounded, at a fixed number of queries; records that runs refer to."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agentplatform.clock import clock_turned_to, database_now
from runs.domain.vocabulary import PersonRole, Role, RunStatus
from runs.models import Run
from tests import factories
from tests.api.calls import Caller, problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer():
    return Caller(factories.person_token(factories.person(PersonRole.VIEWER)))


def ids(answer) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [row["id"] for row in answer.json()["results"]]


def follow(caller: Caller, address: str | None) -> dict:
    assert address is not None
    return caller.get(address.removeprefix("http://testserver")).json()


def test_pages_are_stable_while_rows_are_added(viewer):
    where, by = factories.repository(), factories.person(PersonRole.SUBMITTER)
    made = [factories.queued_run(where, by).pk for _ in range(5)]
    first = viewer.get("runs?limit=2").json()
    factories.queued_run(where, by)
    second = follow(viewer, first["next"])
    third = follow(viewer, second["next"])
    seen = [row["id"] for page in (first, second, third) for row in page["results"]]
    assert seen == list(reversed(made))
    assert third["next"] is None
    back = follow(viewer, third["previous"])
    assert [row["id"] for row in back["results"]] == [row["id"] for row in second["results"]]
    newest = follow(viewer, follow(viewer, back["previous"])["previous"])
    assert newest["previous"] is None


def test_rows_of_one_moment_are_each_on_one_page_there_and_back(viewer):
    where, by = factories.repository(), factories.person(PersonRole.SUBMITTER)
    with clock_turned_to(database_now() - timedelta(hours=1)):
        made = {factories.queued_run(where, by).pk for _ in range(7)}
    pages = [viewer.get("runs?limit=3").json()]
    while pages[-1]["next"]:
        pages.append(follow(viewer, pages[-1]["next"]))
    seen = [row["id"] for page in pages for row in page["results"]]
    assert (len(seen), set(seen)) == (7, made)
    back = follow(viewer, pages[-1]["previous"])
    assert [row["id"] for row in back["results"]] == [row["id"] for row in pages[-2]["results"]]


def cursor(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "query",
    [
        "cursor=x", "cursor=%00", "cursor=%F0%9F%98%80", f"cursor={cursor()}",
        f"cursor={cursor('n', 'x', 'y')}", "status=%00", "limit=0", "limit=-1", "limit=x", "limit=%D9%A1",
        f"cursor={cursor('n', '2026-01-01T00:00:00.000000Z', 5)}",
        f"cursor={cursor('sideways', '2026-01-01T00:00:00.000000Z', 'run_1')}",
        "status=NOPE", "display=nope", "waiting_reason=nope",
        "task=%00", "worker=%00", "repository=a%00b", "failure_category=x", "worker=%0A",
    ],
)  # fmt: skip
def test_odd_queries_are_malformed(viewer, query):
    problem(viewer.get(f"runs?{query}"), 400, "malformed")


def test_a_cursor_of_another_list_is_malformed(viewer):
    run = factories.queued_run()
    foreign = cursor("n", "2026-01-01T00:00:00.000000Z", "run_1")
    problem(viewer.get(f"runs/{run.pk}/steps?cursor={foreign}"), 400, "malformed")


def test_the_limit_is_clamped(viewer):
    factories.queued_run()
    assert len(ids(viewer.get("runs?limit=100000"))) == 1


def test_runs_are_found_by_what_they_are(viewer):
    holder = factories.run_in(RunStatus.EXECUTING)
    other = factories.queued_run(factories.repository("elsewhere"))
    for query in (
        "status=EXECUTING,VERIFYING", "display=running", f"worker={holder.machine.account.name}",
        f"worker={holder.machine.account.pk}", f"task={holder.run.task_id}", "waiting_reason=working",
        f"repository={holder.run.repository.name}",
    ):  # fmt: skip
        assert ids(viewer.get(f"runs?{query}")) == [holder.run_id], query
    assert ids(viewer.get("runs?repository=elsewhere")) == [other.pk]
    assert ids(viewer.get("runs?status=FAILED")) == []
    assert ids(viewer.get("runs?repository=nowhere")) == []


def test_tasks_are_found_by_what_they_are(viewer):
    wanted = factories.task(title="Upgrade the widget", labels=["migration"])
    factories.task(title="Other")
    for query in ("label=migration", "q=WIDGET", f"q={wanted.pk}", f"repository={wanted.repository_id}"):
        assert ids(viewer.get(f"tasks?{query}")) == [wanted.pk], query
    assert len(ids(viewer.get("tasks?display=queued&status=RUNNING"))) == 2
    assert ids(viewer.get("tasks?q=100%25")) == []


def test_a_machine_sees_what_it_holds_held_or_may_claim():
    holder = factories.run_in(RunStatus.EXECUTING)
    queued = factories.queued_run()
    assert set(ids(Caller(holder.machine.token).get("runs"))) == {holder.run_id, queued.pk}
    assert ids(Caller(factories.worker(Role.WORKER).token).get("runs")) == [queued.pk]
    assert ids(Caller(factories.worker(Role.JUDGE).token).get("runs")) == []
    here = factories.worker(repositories=(queued.repository,))
    assert ids(Caller(here.token).get("runs")) == [queued.pk]


def test_people_see_their_repositories_alone():
    mine, other = factories.queued_run(), factories.queued_run()
    limited = factories.person(PersonRole.VIEWER, repository=mine.repository)
    caller = Caller(factories.person_token(limited))
    assert ids(caller.get("runs")) == [mine.pk]
    assert ids(caller.get("tasks")) == [mine.task_id]
    assert ids(caller.get("repositories")) == [mine.repository_id]
    for path in (f"runs/{other.pk}", f"tasks/{other.task_id}", f"repositories/{other.repository_id}"):
        problem(caller.get(path), 404, "not_found")


@pytest.mark.parametrize("path", ["runs", "tasks", "repositories", "workers", "approvals", "pull-requests"])
def test_a_list_costs_the_same_for_one_row_and_for_many(viewer, path):
    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert viewer.get(path).json()["results"]
        return len(queries)

    def one_more() -> None:
        status = {"approvals": RunStatus.WAITING_FOR_APPROVAL, "pull-requests": RunStatus.SUCCEEDED}.get(path)
        factories.run_in(status) if status else factories.run_in(RunStatus.LEASED)

    one_more()
    viewer.get(path)  # the token's last use is written once a minute
    before = cost()
    one_more()
    one_more()
    assert cost() == before


# --- records --------------------------------------------------------------------------------------


def test_a_repository_shows_its_policy_and_where_it_comes_from(viewer):
    made = factories.repository(
        "team/clock", policy={"judge_confidence": 0.9}, url="https://me:secret@git.example/x"
    )
    for name in ("team/clock", made.pk):
        shown = viewer.get(f"repositories/{name}").json()
        assert shown["id"] == made.pk
        assert shown["policy"]["values"]["judge_confidence"] == 0.9
        assert shown["policy"]["origins"]["judge_confidence"] == ["policy of team/clock"]
        assert shown["url"] == "https://git.example/x"
    problem(viewer.get("repositories/no%00where"), 404, "not_found")


def test_workers_are_listed_without_secrets(viewer):
    machine = factories.worker(labels=("python",))
    (shown,) = viewer.get("workers").json()["results"]
    assert (shown["id"], shown["labels"]) == (machine.account.pk, ["python"])
    assert machine.token not in json.dumps(shown)


def test_the_git_integration_reports_a_pull_request(viewer):
    holder = factories.run_in(RunStatus.SUCCEEDED)
    (shown,) = viewer.get("pull-requests").json()["results"]
    assert (shown["run_id"], shown["state"], shown["checks"]) == (holder.run_id, "OPEN", None)
    path = f"pull-requests/{shown['id']}"
    git = Caller(factories.worker(Role.GIT_INTEGRATION).token)
    assert git.post(f"{path}/state", {"state": "MERGED", "checks": "passed"}).status_code == 200
    assert viewer.get(path).json()["state"] == "MERGED"
    assert viewer.get("pull-requests?state=OPEN").json()["results"] == []
    problem(git.post(f"{path}/state", {"state": "BURNT"}), 422, "invalid")
    problem(git.post(f"{path}/state", {}), 422, "invalid")
    problem(viewer.post(f"{path}/state", {"state": "CLOSED"}), 403, "actor_not_allowed")
    problem(
        Caller(factories.worker(Role.JUDGE).token).post(f"{path}/state", {"state": "OPEN"}), 404, "not_found"
    )
    assert Run.objects.get(pk=holder.run_id).status == "SUCCEEDED"
