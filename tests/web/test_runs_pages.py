"""The pages of runs: lists with filters, one run in all its tabs, live parts, buttons."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from runs import service
from runs.auth import of_person
from runs.domain.display import Display
from runs.domain.vocabulary import Ev, PersonRole, RunStatus
from runs.models import Artifact, Person, Run, RunEvent
from runs.selectors import read_surroundings, shown_run, shown_task
from runs.selectors.runs import run_list, visible_runs
from runs.selectors.standing import runs_shown_as, runs_waiting_for, tasks_shown_as
from runs.selectors.tasks import visible_tasks
from tests import factories as make
from tests.api.calls import LeasedCaller

pytestmark = pytest.mark.django_db
P, S = PersonRole, RunStatus
TABS = ("timeline", "steps", "patch", "report", "evidence", "events")


@pytest.fixture
def carol(client: Client) -> Person:
    somebody = make.person(P.OPERATOR, name="carol")
    client.force_login(somebody)
    return somebody


def text(response: Any) -> str:
    """What is read on the page: without tags, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def run_url(run_id: str, tab: str = "") -> str:
    return reverse("run", args=[run_id]) + (f"?tab={tab}" if tab else "")


def act(client: Client, run_id: str, action: str, **fields: str) -> Any:
    return client.post(reverse("run_action", args=[run_id, action]), fields, follow=True)


def queries(client: Client, url: str) -> int:
    cache.clear()  # the number of reviews is kept for some seconds
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert client.get(url).status_code == 200
    return len(found)


def one_of_each(carol: Person) -> None:
    """Runs that stand in many different ways."""
    for status in (S.EXECUTING, S.PLANNING, S.PREPARING, S.WAITING_FOR_APPROVAL, S.SUCCEEDED, S.VERIFYING):
        make.run_in(status)
    by = of_person(carol).caller
    working = make.run_in(S.EXECUTING)
    service.run_direct(run_id=working.run_id, event=Ev.CANCEL_REQUESTED, reason="wrong", by=by)
    service.task_archive(task_id=make.run_in(S.SUCCEEDED).run.task_id, by=by)
    blocked = make.run_in(S.PREPARING)
    failure = {"category": "REPOSITORY_ACCESS", "reason": "clone_failed", "summary": "The key was refused."}
    blocked.post(Ev.NON_RETRYABLE_FAILURE, failure=failure)
    broken = make.run_in(S.PREPARING)
    broken.post(Ev.NON_RETRYABLE_FAILURE, failure={**failure, "category": "INFRASTRUCTURE", "reason": "disk"})
    make.queued_run()
    make.task(submit=False)
    paused, stopped = make.queued_run(), make.queued_run()
    service.run_direct(run_id=paused.pk, event=Ev.PAUSE_REQUESTED, reason="", by=by)
    service.run_direct(run_id=stopped.pk, event=Ev.CANCEL_REQUESTED, reason="wrong", by=by)


def test_the_table_reads_the_same_in_sql_and_in_python(carol: Person):
    one_of_each(carol)
    principal = of_person(carol)
    runs = list(visible_runs(principal))
    surroundings = read_surroundings(repository_ids={run.repository_id for run in runs})
    by_python: dict[str, set[str]] = {state.value: set() for state in Display}
    reasons: dict[str, set[str]] = {}
    for run in runs:
        shown = shown_run(run, principal=principal, surroundings=surroundings)
        by_python[shown["display"]["state"]].add(run.pk)
        if shown["waiting_for"] and not run.task.state["blocked"]:
            reasons.setdefault(shown["waiting_for"]["reason"], set()).add(run.pk)
    for state in Display:
        found = set(
            visible_runs(principal).filter(runs_shown_as(state, surroundings)).values_list("pk", flat=True)
        )
        assert found == by_python[state.value], state
    for reason, expected in reasons.items():
        waiting = visible_runs(principal).filter(runs_waiting_for(reason, surroundings))
        assert set(waiting.values_list("pk", flat=True)) == expected, reason
    assert len([state for state in by_python.values() if state]) >= 8


def test_tasks_are_filtered_as_they_are_shown(carol: Person):
    one_of_each(carol)
    principal = of_person(carol)
    tasks = list(visible_tasks(principal))
    surroundings = read_surroundings(repository_ids={task.repository_id for task in tasks})
    runs = Run.objects.in_bulk([task.latest_run_id for task in tasks if task.latest_run_id])
    by_python: dict[str, set[str]] = {state.value: set() for state in Display}
    for task in tasks:
        run = runs.get(task.latest_run_id)
        shown = shown_task(task, run, principal=principal, surroundings=surroundings)
        by_python[shown["display"]["state"]].add(task.pk)
    for state in Display:
        found = visible_tasks(principal).filter(tasks_shown_as(state, surroundings))
        assert set(found.values_list("pk", flat=True)) == by_python[state.value], state
    assert by_python["blocked"]
    assert by_python["draft"]


def test_a_list_costs_the_same_for_one_row_and_for_twelve(client: Client, carol: Person):
    lists = ["runs", "tasks", "home", "notifications", "workers", "repositories", "lifecycle"]
    where = make.repository()
    make.queued_run(where, carol)
    make.worker()
    few = {name: queries(client, reverse(name)) for name in lists}
    for _ in range(11):
        make.queued_run(where, carol)
        make.worker()
    assert {name: queries(client, reverse(name)) for name in lists} == few


def test_the_page_of_a_run_costs_the_same_however_long_its_log_is(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING)
    costs = [queries(client, run_url(holder.run_id, tab)) for tab in TABS]
    for number in range(10):
        holder.post(Ev.MODEL_DECISION, decision="tool", summary=f"Step {number}")
    assert [queries(client, run_url(holder.run_id, tab)) for tab in TABS] == costs


@pytest.mark.parametrize("status", [S.QUEUED, S.EXECUTING, S.WAITING_FOR_APPROVAL, S.SUCCEEDED])
def test_every_tab_opens_in_every_kind_of_status(client: Client, carol: Person, status: RunStatus):
    run_id = make.queued_run().pk if status is S.QUEUED else make.run_in(status).run_id
    for tab in TABS:
        answer = client.get(run_url(run_id, tab))
        assert answer.status_code == 200, tab
        assert "style=" not in answer.content.decode(), tab
    assert ("data-live" in answer.content.decode()) is (status is not S.SUCCEEDED)


def test_a_tab_that_is_none_is_not_found(client: Client, carol: Person):
    assert client.get(run_url(make.queued_run().pk, "secrets")).status_code == 404


def test_a_live_part_is_sent_only_when_something_moved(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING)
    url, part = run_url(holder.run_id), {"HX-Request": "true"}
    first = client.get(url, headers=part)
    assert first.content.decode().lstrip().startswith('<div id="run"')
    again = client.get(url, headers={**part, "If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    holder.post(Ev.MODEL_DECISION, decision="tool", summary="Look again")
    moved = client.get(url, headers={**part, "If-None-Match": first["ETag"]})
    assert moved.status_code == 200
    assert "Look again" in text(moved)


def test_text_of_agents_is_data(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING)
    evil = "<img src=x onerror=alert(1)>"
    holder.post(Ev.TOOL_REQUESTED, operation_id="1", tool=evil, arguments={"a": evil}, label=evil)
    for tab in TABS:
        assert evil not in client.get(run_url(holder.run_id, tab)).content.decode()


def test_the_sentence_opens_the_events_behind_it(client: Client, carol: Person):
    run = make.queued_run()
    page = client.get(run_url(run.pk)).content.decode()
    url = reverse("run_events", args=[run.pk])
    assert f"{url}?from=1&amp;to=1" in page
    part = client.get(f"{url}?from=1&to=1", headers={"HX-Request": "true"})
    assert "run_created" in text(part)
    assert "run_enqueued" not in text(part)
    whole = client.get(f"{url}?from=1&to=1", follow=True)
    assert "1 to 1 of 2" in text(whole)


def test_the_log_is_downloaded_as_json_lines(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING)
    answer = client.get(reverse("run_log", args=[holder.run_id]))
    lines = [json.loads(line) for line in b"".join(answer).splitlines()]
    assert [line["sequence"] for line in lines] == list(range(1, holder.run.version + 1))
    assert answer["Content-Disposition"].startswith("attachment")


def test_an_artifact_is_downloaded_and_never_shown(client: Client, carol: Person):
    holder = make.run_in(S.WAITING_FOR_APPROVAL)
    row = Artifact.objects.get(run_id=holder.run_id, kind="patch")
    answer = client.get(reverse("artifact", args=[row.pk]))
    assert b"".join(answer) == holder.patch
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_the_patch_is_shown_file_by_file(client: Client, carol: Person):
    holder = make.run_in(S.WAITING_FOR_APPROVAL)
    row = Artifact.objects.get(run_id=holder.run_id, kind="patch")
    assert "data-viewed-box" in client.get(run_url(holder.run_id, "patch")).content.decode()
    assert client.get(reverse("patch_file", args=[row.pk, 0])).status_code == 200
    assert client.get(reverse("patch_file", args=[row.pk, 99])).status_code == 404


def test_an_analysis_has_a_report_as_text_and_no_patch(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING, completion_mode="analysis_report_created")
    assert "No report yet." in text(client.get(run_url(holder.run_id, "report")))
    key = "AKIA" + "Z7Q4M2X9T1B6K3WD"
    holder.report(f"# Found <b>it</b>\u202e in {key}\n".encode() + b"x" * 200_000 + b"the end")
    shown = client.get(run_url(holder.run_id, "report")).content.decode()
    assert "# Found &lt;b&gt;it&lt;/b&gt;" in shown
    assert '<span class="mark-char"><i>U+202E</i>' in shown
    assert "Its first 195 KiB; download it to read on." in shown
    assert "the end" not in shown
    assert "[redacted]" in shown
    assert key not in shown
    assert reverse("artifact", args=[holder.run.state["report"]["id"]]) in shown
    assert "?tab=report" in shown
    assert "?tab=patch" not in shown


def test_the_head_counts_what_was_and_not_what_might_be(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING)
    page = text(client.get(run_url(holder.run_id)))
    assert "run 1 · attempt 1" in page
    assert "under a minute of 2 h" in page
    assert "Steps 0" not in page
    last = make.run_in(S.SUCCEEDED)
    Run.objects.filter(pk=holder.run_id).update(status=S.FAILED, completed_at=last.run.completed_at)
    Run.objects.filter(pk=last.run_id).update(task_id=holder.run.task_id, attempt_no=2)
    assert "run 2, after 1 failed" in text(client.get(run_url(last.run_id)))


def test_what_is_of_another_repository_is_not_found(client: Client):
    mine = make.repository()
    client.force_login(make.person(P.VIEWER, repository=mine))
    holder = make.run_in(S.WAITING_FOR_APPROVAL)
    row = Artifact.objects.filter(run_id=holder.run_id).first()
    assert row is not None
    run, task, repository = holder.run_id, holder.run.task_id, holder.run.repository.name
    hidden = [
        run_url(run),
        reverse("run_log", args=[run]),
        reverse("run_events", args=[run]),
        reverse("artifact", args=[row.pk]),
        reverse("patch_file", args=[row.pk, 0]),
        reverse("repository", args=[repository]),
        reverse("task", args=[task]),
    ]
    assert [client.get(url).status_code for url in hidden] == [404] * len(hidden)
    assert act(client, holder.run_id, "cancel", reason="no").status_code == 404
    assert holder.run.task.title not in text(client.get(reverse("runs")))


def test_strangers_are_asked_to_sign_in(client: Client):
    for name in (
        "home",
        "tasks",
        "task_new",
        "runs",
        "repositories",
        "workers",
        "lifecycle",
        "notifications",
    ):
        assert client.get(reverse(name)).headers["Location"].startswith(reverse("login"))


def test_a_stop_needs_a_reason_and_leaves_a_receipt(client: Client, carol: Person):
    run = make.queued_run()
    assert "reason is required" in text(act(client, run.pk, "cancel"))
    done = act(client, run.pk, "cancel", reason="wrong branch")
    assert "by carol: wrong branch" in text(done)
    assert "Receipt of the stop" in text(done)
    assert Run.objects.get(pk=run.pk).status == S.CANCELLED


def test_a_pause_is_taken_back(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING)
    act(client, holder.run_id, "pause")
    assert holder.run.directive == "pause"
    act(client, holder.run_id, "resume")
    assert holder.run.directive == "continue"


def test_finishing_up_is_asked_once_however_often_it_is_clicked(client: Client, carol: Person):
    holder = make.run_in(S.EXECUTING)
    for _ in range(2):
        act(client, holder.run_id, "wind_down")
    assert RunEvent.objects.filter(run_id=holder.run_id, event_type=Ev.WIND_DOWN_REQUESTED).count() == 1


def test_a_note_sent_twice_stands_once(client: Client, carol: Person):
    run = make.queued_run()
    for _ in range(2):
        answer = act(client, run.pk, "note", text="Looks odd", idempotency_key="note-1")
    assert "carol noted Looks odd" in text(answer)
    assert RunEvent.objects.filter(run=run, event_type=Ev.NOTE_ADDED).count() == 1


def test_a_viewer_sees_no_button_and_may_press_none(client: Client):
    client.force_login(make.person(P.VIEWER))
    holder = make.run_in(S.EXECUTING)
    page = client.get(run_url(holder.run_id)).content.decode()
    assert 'data-action="cancel"' not in page
    assert 'name="text"' not in page
    assert act(client, holder.run_id, "cancel", reason="no").status_code == 403


def test_no_page_of_a_run_acts_on_get(client: Client, carol: Person):
    run = make.queued_run()
    assert client.get(reverse("run_action", args=[run.pk, "cancel"])).status_code == 405
    assert act(client, run.pk, "explode").status_code == 404


def test_filters_stand_in_the_address(client: Client, carol: Person):
    make.run_in(S.EXECUTING, title="Under way")
    make.queued_run(title="In the queue")
    found = text(client.get(reverse("runs") + "?display=running"))
    assert "Under way" in found
    assert "In the queue" not in found
    nothing = text(client.get(reverse("runs") + "?failure_category=UNKNOWN"))
    assert "Nothing matches" in nothing
    assert "Clear the filters" in nothing
    assert "Nothing matches" in text(client.get(reverse("runs") + "?display=nonsense"))


def test_an_empty_list_says_the_next_step(client: Client, carol: Person):
    assert "No run yet" in text(client.get(reverse("runs")))
    assert "New task" in text(client.get(reverse("tasks")))


def test_pages_of_a_list_go_there_and_back(carol: Person, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("runs.selectors.paging.PAGE", 2)
    where = make.repository()
    made = [make.queued_run(where).pk for _ in range(5)][::-1]
    principal = of_person(carol)

    def shown(address: str) -> tuple[list[str], dict[str, str]]:
        from urllib.parse import parse_qsl

        found = run_list(principal=principal, params=dict(parse_qsl(address.removeprefix("?"))))
        return [row["id"] for row in found["rows"]], found["pager"]

    first, pager = shown("")
    second, pager2 = shown(pager["next"])
    third, pager3 = shown(pager2["next"])
    assert first + second + third == made
    assert (pager["previous"], pager3["next"]) == ("", "")
    assert shown(pager3["previous"])[0] == second
    assert shown(pager2["previous"])[0] == first
    assert shown("?older=nonsense")[0] == first


def test_the_page_tells_a_sign_of_life_from_a_report_and_counts_what_was_refused(client: Client):
    late = make.run_in(RunStatus.EXECUTING)
    late.post(Ev.LEASE_RELEASED)
    holder = make.claim(make.worker(), late.run)
    holder.prepare()
    caller = LeasedCaller(late)
    for _ in range(2):
        assert caller.event("model_decision", {"decision": "tool"}, key="late").status_code == 409
    client.force_login(make.person(PersonRole.VIEWER))
    page = client.get(f"/runs/{holder.run_id}/").content.decode()
    assert "heard <time" in page
    assert "last report <time" in page
    assert "2 lease lost" in page
