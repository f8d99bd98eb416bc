"""Words that imports cannot see: each is allowed in the one place that answers for it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.house.sources import modules, name, tree

APPS = ("agentplatform", "runs", "approvals")
CLOCKS = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "perf_counter"}
CLOCK_MODULES = {"datetime", "date", "time", "timezone"}


def calls(path: Path, matches: Callable[[ast.Call], bool]) -> list[str]:
    return [
        f"{name(path)}:{node.lineno}"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and matches(node)
    ]


def method(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def found(
    matches: Callable[[ast.Call], bool], *, allowed: tuple[str, ...] = (), folders: tuple[str, ...] = APPS
):
    return [
        place
        for path in modules(*folders)
        if not name(path).startswith(allowed)
        for place in calls(path, matches)
    ]


def test_only_the_stores_lock_rows():
    stores = ("runs/store", "approvals/store")
    assert found(lambda call: method(call) == "select_for_update", allowed=stores) == []


def test_nobody_updates_a_status_past_the_state_machine():
    def updates_status(call: ast.Call) -> bool:
        return method(call) == "update" and any(word.arg == "status" for word in call.keywords)

    assert found(updates_status) == []


def test_only_the_outbox_sends_tasks():
    sends = {"delay", "apply_async", "send_task"}
    assert found(lambda call: method(call) in sends, allowed=("runs/outbox",)) == []


def test_no_effect_waits_for_a_commit_in_memory():
    # A bell is no effect: unheard, it costs a waiting claim two seconds and loses nothing.
    assert found(lambda call: method(call) == "on_commit", allowed=("runs/store/bell",)) == []


def test_nobody_refreshes_a_model_in_place():
    # One failed refresh switches the protection of the status off for the whole process.
    assert found(lambda call: method(call) == "refresh_from_db") == []


def test_the_domain_asks_no_clock():
    def asks_clock(call: ast.Call) -> bool:
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        return method(call) in CLOCKS and isinstance(owner, ast.Name) and owner.id in CLOCK_MODULES

    assert found(asks_clock, folders=("runs/domain",)) == []


@pytest.mark.parametrize("module", ["random", "secrets", "uuid", "time"])
def test_the_domain_imports_nothing_that_differs_between_runs(module):
    importing = [
        f"{name(path)}:{node.lineno}"
        for path in modules("runs/domain")
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == module for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == module)
    ]
    assert importing == []


@pytest.mark.parametrize(
    ("source", "matches"),
    [
        ("Run.objects.select_for_update()", lambda call: method(call) == "select_for_update"),
        ("send.delay(1)", lambda call: method(call) == "delay"),
    ],
)
def test_a_planted_word_is_found(tmp_path, monkeypatch, source, matches):
    monkeypatch.setattr("tests.house.sources.ROOT", tmp_path)
    planted = tmp_path / "planted.py"
    planted.write_text(source)
    assert calls(planted, matches) == ["planted.py:1"]
