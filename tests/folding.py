"""Refolding: what the log adds up to must be what the rows say (lifecycle contract, 4.3 rule 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.forms.models import model_to_dict

from runs import rebuild, store
from runs.domain.facts import Event
from runs.domain.fold import evolve
from runs.domain.state import Changes, RunState
from runs.domain.tasks import TaskState, fold_task
from runs.models import Attempt, Lease, Run, Step, Task, TaskEvent


def check_run(run: Run) -> None:
    """Log, chain, row, attempts, steps and lease of one run agree."""
    Watched().look(run)


class Watched:
    """One run under watch: each look folds what was added since the last, and holds everything against it."""

    def __init__(self) -> None:
        self.state, self.changes, self.link = RunState(), Changes(), ""
        self.row: dict[str, Any] = {}

    def look(self, run: Run) -> list[Event]:
        """The events that are new. Where there is none, nothing else may have moved either."""
        row = {field.attname: getattr(run, field.attname) for field in run._meta.concrete_fields}
        if self.row and run.version == self.row["version"]:
            assert row == self.row
            return []
        new = list(store.events_of(run.pk, after=self.state.sequence))
        for event in new:
            self._append(event)
        assert (run.chain_hash, run.chain_mac) == (self.link, store.mac(run.pk, run.version, self.link))
        self._compare(run)
        self.row = row
        return new

    def _append(self, event: Event) -> None:
        assert event.sequence == self.state.sequence + 1
        assert event.previous_hash == self.link
        assert store.hash_of(event) == event.hash, f"{event.run_id} {event.sequence} was altered"
        self.link = event.hash
        self.changes.update(evolve(self.state, event))

    def _compare(self, run: Run) -> None:
        assert self.state.to_json() == run.state
        assert self.state.status == run.status
        columns = store.row_columns(self.state, store.surroundings(run))
        assert {name: getattr(run, name) for name in columns} == columns
        _check_rows(
            {a.number: a for a in Attempt.objects.filter(run=run)},
            {number: store.attempt_columns(values) for number, values in self.changes.attempts.items()},
        )
        _check_rows(
            {s.operation_id: s for s in Step.objects.filter(run=run)},
            {name: store.step_columns(values) for name, values in self.changes.steps.items()},
        )
        _check_lease(run, self.state)


def _check_rows(rows: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    assert rows.keys() == wanted.keys()
    for key, columns in wanted.items():
        found = {name: getattr(rows[key], name) for name in columns}
        assert found == columns, model_to_dict(rows[key])


def _check_lease(run: Run, state: RunState) -> None:
    held = list(Lease.objects.filter(run=run, ended_at__isnull=True).values_list("pk", "fence"))
    assert held == ([(state.holder["lease_id"], run.fence)] if state.holder else [])
    fences = Lease.objects.filter(run=run).order_by("acquired_at").values_list("fence", flat=True)
    assert list(fences) == list(range(1, run.fence + 1))


def check_task(task: Task) -> None:
    """A task's row is the fold of its own log."""
    rows = TaskEvent.objects.filter(task_id=task.pk).order_by("sequence")
    events = [store.task_event_of(row) for row in rows]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    state = fold_task(events)
    assert state == TaskState.from_json(task.state)
    assert state.status == task.status
    columns = store.task_columns(state)
    assert {name: getattr(task, name) for name in columns} == columns


def check_all() -> None:
    """Every run and task there is."""
    for run in Run.objects.select_related("task"):
        check_run(run)
        if run.gate or run.events.filter(event_type="human_approval_required").exists():
            rebuild.assert_folds(run.pk)  # its requests follow the log, too
    for task in Task.objects.all():
        check_task(task)


def uses_database(request: pytest.FixtureRequest) -> bool:
    """Whether the test works on the database."""
    return bool(
        request.node.get_closest_marker("django_db") or {"db", "transactional_db"} & set(request.fixturenames)
    )


@pytest.fixture(autouse=True)
def folds_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test all rows are what their logs fold to.

    A test that damages rows on purpose overrides this fixture in its module by one that does nothing.
    """
    if not uses_database(request):
        yield
        return
    request.getfixturevalue("_django_db_helper")  # so that this looks before that rolls back
    yield
    check_all()
