"""The output of a step: a bounded page of however much there is, searchable, and nothing in it is obeyed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from runs import livelogs
from runs.domain.vocabulary import ArtifactKind, Ev, PersonRole, RunStatus
from runs.models import Artifact
from runs.selectors import logs
from tests import factories as make

pytestmark = pytest.mark.django_db
CALL: Any = {"operation_id": "op-1", "tool": "shell", "arguments": {"n": 1}, "label": "Run the tests"}
#: As agents and their tools write it: markup, colours, a link, a hidden line, cursor moves.
HOSTILE = (
    b"\x1b[31m<img src=x onerror=alert(1)>\x1b[0m\n\x1b]8;;javascript:alert(2)\x07click\x1b]8;;\x07\n"
    b"rm -rf /srv\rall tests passed\n\x1b[2J\x1b[1A\x1b[2Kgone\n<style>body{display:none}</style>\n"
)


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(make.person(PersonRole.VIEWER))
    return client


@pytest.fixture
def holder() -> make.Holder:
    running = make.run_in(RunStatus.EXECUTING)
    running.post(Ev.TOOL_REQUESTED, **CALL)
    return running


def write(holder: make.Holder, data: bytes) -> None:
    """As the worker sends it while the step runs."""
    for offset in range(0, len(data), livelogs.CHUNK_MAX_BYTES):
        livelogs.livelog_append(
            run_id=holder.run_id, operation_id="op-1", offset=offset, account=holder.machine.account.pk,
            data=data[offset : offset + livelogs.CHUNK_MAX_BYTES], lease_token=holder.token,
        )  # fmt: skip


def finish(holder: make.Holder, output: bytes) -> Artifact:
    artifact_id = holder.upload(ArtifactKind.OUTPUT, output)
    holder.post(Ev.TOOL_COMPLETED, operation_id="op-1", outcome="succeeded", output_artifact_id=artifact_id)
    return Artifact.objects.get(pk=artifact_id)


def page(client: Client, holder: make.Holder, **params: str) -> str:
    return client.get(reverse("step_log", args=[holder.run_id, "op-1"]), params).content.decode()


def lines(shown: str) -> list[str]:
    return [
        re.sub(r"<[^>]+>", "", line)
        for line in re.findall(r'class="line"[^>]*>(.*?)</div>', shown, re.DOTALL)
    ]


def test_a_growing_log_is_live_and_a_finished_one_is_not(viewer: Client, holder: make.Holder):
    write(holder, b"one\ntwo\n")
    shown = page(viewer, holder)
    assert 'id="log" data-live' in shown
    assert [line.strip() for line in lines(shown)][:2] == ["one", "two"]
    finish(holder, b"one\ntwo\nthree\n")
    assert "data-live" not in page(viewer, holder)


def test_markup_links_and_controls_in_output_do_nothing(viewer: Client, holder: make.Holder):
    finish(holder, HOSTILE)
    shown = page(viewer, holder)
    assert '<span class="ink-red">&lt;img src=x onerror=alert(1)&gt;</span>' in shown
    assert "javascript:" not in shown
    assert "<style>" not in shown
    assert "rm -rf /srv" in shown
    assert "all tests passed" in shown
    assert "\x1b" not in shown
    marks = re.findall(r'<span class="mark-char"><i>([^<]+)</i></span>', shown)
    assert {"␍", "␛[2J"} <= set(marks)


def test_the_bytes_as_they_are_remain_in_the_download(viewer: Client, holder: make.Holder):
    artifact = finish(holder, HOSTILE)
    answer: Any = viewer.get(reverse("artifact", args=[artifact.pk]))
    assert b"".join(answer.streaming_content) == HOSTILE
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_page_holds_the_last_lines_and_says_what_it_leaves_out(viewer: Client, holder: make.Holder):
    finish(holder, b"".join(b"line %d\n" % number for number in range(5_000)))
    shown = page(viewer, holder)
    assert len(lines(shown)) == logs.LINES
    assert "line 4999" in shown
    assert "line 4700" not in shown
    assert "before them are not shown" in shown
    earlier = re.search(r'href="\?before=(\d+)"', shown)
    assert earlier
    before = page(viewer, holder, before=earlier[1])
    assert len(lines(before)) == logs.LINES
    assert "line 4700" in before
    assert "line 4999" not in before


def test_a_line_without_end_is_cut_and_says_by_how_much(viewer: Client, holder: make.Holder):
    finish(holder, b"x" * (3 << 20) + b"\nlast\n")
    shown = page(viewer, holder)
    assert len(shown) < 100_000
    assert "last" in shown
    only = page(viewer, holder, before=str(3 << 20))
    assert len(only) < 100_000
    assert re.search(r"… 102\d KiB more|… 1.0 MiB more", only)


@pytest.mark.parametrize("query", ["", "last", "nowhere"])
def test_a_page_of_a_huge_log_reads_and_sends_a_part_at_a_time(
    viewer: Client, holder: make.Holder, monkeypatch: pytest.MonkeyPatch, query: str
):
    finish(holder, b"first of many lines\n" * 50_000 + b"x" * (3 << 20) + b"\n" + b"y" * 9_000 + b"\nlast\n")
    read: list[int] = []
    whole = logs._of_file

    def of_file(artifact: Artifact, start: int, end: int) -> bytes:
        read.append(end - start)
        return whole(artifact, start, end)

    monkeypatch.setattr(logs, "_of_file", of_file)
    shown = page(viewer, holder, **({"q": query} if query else {}))
    assert read
    assert max(read) <= logs.WINDOW
    assert len(shown) < logs.LINES * logs.LINE_BYTES
    assert "4.0 MiB" in shown


@pytest.mark.parametrize("end_of_line", [b"\n", b"\r", b"\r\n"])
def test_going_back_page_by_page_shows_every_line_once(
    viewer: Client, holder: make.Holder, end_of_line: bytes
):
    wanted = [f"{number} %" for number in range(1_100)]
    finish(holder, end_of_line.join(line.encode() for line in wanted))
    shown = page(viewer, holder)
    found = lines(shown)
    for _ in range(len(wanted) // logs.LINES):
        earlier = re.search(r'href="\?before=(\d+)"', shown)
        assert earlier
        shown = page(viewer, holder, before=earlier[1])
        found = [*lines(shown), *found]
    assert [line.strip() for line in found if line.strip()] == wanted
    assert "?before=" not in shown


@pytest.mark.parametrize("grows", [True, False])
def test_a_search_finds_lines_anywhere_in_it(viewer: Client, holder: make.Holder, grows: bool):
    content = b"".join(b"%d \x1b[32mPassed\x1b[0m\n" % number for number in range(90_000))
    content = b"0 \x1b[31mFAI\x1b[0mLED <b>first</b>\n" + content + b"end\n"
    write(holder, content) if grows else finish(holder, content)
    shown = page(viewer, holder, q="failed <b>FIRST")
    assert len(lines(shown)) == 1
    assert "FAI" in lines(shown)[0]
    assert "1 line with" in shown
    assert "No line holds it" in page(viewer, holder, q="nowhere")


def test_a_step_elsewhere_or_without_output_is_not_there(viewer: Client, holder: make.Holder):
    address = reverse("step_log", args=[holder.run_id, "op-1"])
    assert viewer.get(address).status_code == 404
    assert viewer.get(reverse("step_log", args=[holder.run_id, "op-9"])).status_code == 404
    write(holder, b"secret")
    viewer.force_login(make.person(PersonRole.VIEWER, repository=make.repository()))
    assert viewer.get(address).status_code == 404


def test_steps_are_shown_by_attempt(viewer: Client, holder: make.Holder):
    finish(holder, b"done")
    steps = viewer.get(f"/runs/{holder.run_id}/?tab=steps").content.decode()
    assert reverse("step_log", args=[holder.run_id, "op-1"]) in steps
    assert "Run the tests" in viewer.get(f"/runs/{holder.run_id}/?tab=steps&attempt=1").content.decode()


@pytest.mark.parametrize(
    ("mode", "tab"),
    [("analysis_report_created", "Report"), ("patch_ready_for_review", "Patch"), ("pr_created", "Evidence")],
)
def test_the_result_of_each_kind_of_task_has_its_tab(viewer: Client, mode: str, tab: str):
    run = make.queued_run(completion_mode=mode)
    shown = viewer.get(f"/runs/{run.pk}/?tab=result").content.decode()
    assert re.search(rf'aria-current="page">{tab}', shown)


def test_a_secret_that_the_worker_let_through_is_shown_to_nobody(viewer: Client, holder: make.Holder):
    token = "AKIA" + "Z7Q4M2X9T1B6K3WD"
    write(holder, f"key={token} used\n".encode())
    for shown in (page(viewer, holder), page(viewer, holder, q="used")):
        assert "[redacted]" in shown
        assert token[4:12] not in shown
