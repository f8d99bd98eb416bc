"""Logs of every release, older and newer than this one, are read; none is rewritten."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runs.domain.facts import Actor, Event, chain_hash
from runs.domain.fold import fold
from runs.domain.versions import CURRENT_VERSION, UPCASTERS, upcast, version_of
from runs.domain.vocabulary import Ev

#: Whole logs as a release wrote them, with what they added up to then.
GOLDEN = sorted((Path(__file__).parent / "golden").glob("version_*.json"))


def read(path: Path) -> tuple[list[Event], Any]:
    kept = json.loads(path.read_text())
    return [Event(**{**row, "actor": Actor(**row["actor"])}) for row in kept["events"]], kept


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> tuple[list[Event], Any]:
    return read(request.param)


def known_then(now: Any, then: Any) -> Any:
    """What is there now, without the names that came later."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {name: known_then(value, then[name]) for name, value in now.items() if name in then}
    return now


def test_an_old_log_adds_up_to_what_it_did(golden):
    events, kept = golden
    state, changes = fold(events)
    assert known_then(state.to_json(), kept["state"]) == kept["state"]
    for rows, then in ((changes.attempts, kept["attempts"]), (changes.steps, kept["steps"])):
        now = {str(key): columns for key, columns in rows.items()}
        assert now.keys() == then.keys()
        for key, columns in then.items():
            assert {name: now[key][name] for name in columns} == columns


def test_reading_an_old_log_changes_none_of_it(golden):
    events, _ = golden
    before = deepcopy(events)
    fold(events)
    assert events == before
    for event, previous in zip(events, [None, *events], strict=False):
        assert event.previous_hash == (previous.hash if previous else "")
        assert chain_hash(event) == event.hash


def test_every_version_that_ever_was_is_kept_as_a_log():
    kept = {(event.type, event.schema_version) for path in GOLDEN for event in read(path)[0]}
    assert UPCASTERS.keys() <= kept


def test_each_version_leads_to_todays():
    for event, newest in CURRENT_VERSION.items():
        assert [version for name, version in UPCASTERS if name == event] == list(range(1, newest))


@pytest.mark.parametrize(
    ("sent", "amount"), [("0.10", "0.10"), (1, "1"), (0.25, "0.25"), (1e-07, "0.0000001"), ("0", "0")]
)
def test_an_amount_of_version_one_is_read_as_it_was(sent, amount):
    payload: dict[str, Any] = {"cost_usd": sent}
    assert upcast(Ev.TOOL_COMPLETED, 1, payload, {}) == (payload, {"cost_usd": amount})
    assert upcast(Ev.TOOL_COMPLETED, 1, {}, {}) == ({}, {})


@pytest.mark.parametrize(
    "newer",
    [
        {"type": "sandbox_warm", "payload": {"anything": [1]}},
        {"schema_version": 99, "payload": {"other": "shape"}},
    ],
    ids=["an unknown type", "a newer version of a known one"],
)
def test_what_a_newer_release_wrote_moves_nothing_here(newer):
    events, _ = read(GOLDEN[0])
    place = next(i for i, event in enumerate(events) if event.type == Ev.TOOL_REQUESTED)
    before, _ = fold(events[:place])
    after, changes = fold([*events[:place], replace(events[place], **newer)])
    assert changes.steps.keys() == fold(events[:place])[1].steps.keys()
    assert after.pending == before.pending
    assert (after.sequence, after.status) == (before.sequence + 1, before.status)
    assert version_of("sandbox_warm") == 1
