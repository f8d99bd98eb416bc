"""``manage.py check`` finds readers of one definition that disagree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentplatform import checks
from runs.domain import payloads, policy, table
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Run


def _ids() -> list[str]:
    return sorted({str(message.id) for message in checks.check_definitions()})


def test_the_definitions_agree():
    assert _ids() == []


def test_it_runs_with_manage_py_check():
    from django.core.checks import registry

    assert checks.check_definitions in registry.registry.get_checks()


def _drop_an_edge(patch: pytest.MonkeyPatch) -> None:
    real = list(table.edges())
    patch.setattr(checks, "edges", lambda: [edge for edge in real if edge[0] is not Ev.PATCH_CREATED])


def _loosen_the_trigger(patch: pytest.MonkeyPatch) -> None:
    trigger = next(t for t in vars(Run._meta)["triggers"] if hasattr(t, "transitions"))
    patch.setattr(trigger, "transitions", [*trigger.transitions, ("FAILED", "QUEUED")])


def _drop_a_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checks, "ROWS", tuple(row for row in table.ROWS if row.event is not Ev.NOTE_ADDED))


def _drop_a_shape(patch: pytest.MonkeyPatch) -> None:
    patch.delitem(payloads.SHAPES, Ev.PATCH_CREATED)


def _say_one_label_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunStatus.QUEUED, "label", RunStatus.LEASED.label)


def _shorten_the_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(policy.DEFAULTS, "lease_seconds", 20)


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (_drop_an_edge, "agentplatform.E001"),
        (_loosen_the_trigger, "agentplatform.E002"),
        (_drop_a_row, "agentplatform.E003"),
        (_drop_a_shape, "agentplatform.E004"),
        (_say_one_label_twice, "agentplatform.E005"),
        (_shorten_the_lease, "agentplatform.E006"),
    ],
)
def test_a_disagreement_is_found(spoil: Callable[[pytest.MonkeyPatch], None], found: str, monkeypatch):
    spoil(monkeypatch)
    assert _ids() == [found]
