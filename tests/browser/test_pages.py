"""Every page, in both schemes and widths: readable by everybody, no wider than its window, no error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from runs.domain.vocabulary import ArtifactKind, Ev, RunStatus
from tests.browser.scenes import Scene, open_request
from tests.browser.visitor import LOOKS, Visitor
from tests.factories import Holder, drive

#: It runs from the right, and holds a word without a place to break.
AWKWARD = "إزالة الشيفرة " + "settings_from_environment_variables" * 13 + " 🧹"
TABS = ("", "?tab=steps", "?tab=patch", "?tab=evidence", "?tab=events")
LISTS = ("/", "/tasks/", "/runs/", "/approvals/", "/repositories/", "/workers/", "/notifications/")
OTHERS = (
    "/tasks/new/",
    "/lifecycle/",
    "/holds/",
    "/outcomes/",
    "/autonomy/",
    "/notifications/settings/",
    "/accounts/me/",
)


def test_the_sign_in_meets_the_bar(visit: Callable[..., Visitor], scene: Scene) -> None:
    assert barriers(visit(), ["/accounts/login/"]) == {}


def test_empty_pages_meet_the_bar(visit: Callable[..., Visitor], scene: Scene) -> None:
    dana = visit(scene.dana)
    dana.allow("status of 404")
    assert barriers(dana, [*LISTS, "/nowhere/", "/patterns/"]) == {}


def test_full_pages_meet_the_bar(visit: Callable[..., Visitor], scene: Scene) -> None:
    waiting = called(scene, title=AWKWARD)
    scene.run(RunStatus.SUCCEEDED)
    assert barriers(visit(scene.dana), addresses(scene, waiting)) == {}


def addresses(scene: Scene, waiting: Holder) -> Iterator[str]:
    run = waiting.run
    yield from (*LISTS, *OTHERS, f"/tasks/{run.task_id}/")
    yield f"/approvals/{open_request(run).pk}/"
    yield f"/repositories/{scene.repository.name}/"
    yield from (f"/runs/{run.pk}/{tab}" for tab in TABS)
    yield f"/runs/{run.pk}/logs/op-1/"
    yield f"/runs/{reported(scene)}/?tab=report"


def reported(scene: Scene) -> str:
    """An analysis that left its report."""
    reader = scene.run(RunStatus.EXECUTING, completion_mode="analysis_report_created")
    reader.report()
    return reader.run_id


def called(scene: Scene, **fields: Any) -> Holder:
    """A run at its patch gate that made one tool call, which left output."""
    holder = scene.run(RunStatus.EXECUTING, **fields)
    call: Any = {"operation_id": "op-1", "tool": "shell", "arguments": {"n": 1}, "label": AWKWARD}
    holder.post(Ev.TOOL_REQUESTED, **call)
    said = holder.upload(ArtifactKind.OUTPUT, b"\x1b[31mred\x1b[0m\n<script>alert(1)</script>\rover\n" * 50)
    holder.post(Ev.TOOL_COMPLETED, operation_id="op-1", outcome="failed", output_artifact_id=said)
    return drive(holder, RunStatus.WAITING_FOR_APPROVAL)


def barriers(visitor: Visitor, pages: Iterable[str]) -> dict[str, list[str]]:
    """Address and look → what is wrong there; where nothing is, they are left out."""
    found: dict[str, list[str]] = {}
    for path in pages:
        answer = visitor.go(path)
        assert answer.status < 500, path
        for look in LOOKS:
            visitor.wear(look)
            if wrong := visitor.findings(colours_only=look.scheme == "dark"):
                found[f"{path} {look}"] = wrong
        if wrong := visitor.lost_when_zoomed():
            found[f"{path} at 200 %"] = wrong
    return found
