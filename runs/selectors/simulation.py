"""A policy tried on the past: recorded runs asked again, a bounded number of them or all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from django.conf import settings
from django.db.models import QuerySet

from runs.domain.contract import rejection_reasons
from runs.domain.facts import Artifact, Event, Json
from runs.domain.log_limits import LogLimits
from runs.domain.policy import Effective
from runs.domain.simulation import Recorded, Simulated, simulate
from runs.domain.simulation_compare import Difference
from runs.domain.state import RunState
from runs.domain.vocabulary import TaskStatus
from runs.models import Artifact as ArtifactRow
from runs.models import Run, RunEvent, Task

#: Events that are held in memory at once; a longer run is a piece of its own.
_PIECE: Final = 2_000


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What one recorded run would have been under another policy. ``already``: those of its differences that
    the policy in force makes as well, because it, or a rule, is younger than the run."""

    run: Run
    simulated: Simulated
    already: tuple[Difference, ...] = ()

    @property
    def new(self) -> list[Difference]:
        """Differences that the policy in force does not make."""
        return [difference for difference in self.simulated.differences if difference not in self.already]


@dataclass(frozen=True, slots=True)
class SimulatedIntake:
    """A task that was rejected at its submission, and why it still would be (empty: it would be taken)."""

    task: Task
    reasons: tuple[str, ...]


def recorded_runs(repository_ids: Sequence[str]) -> QuerySet[Run]:
    """Runs of these repositories that have a log, newest first."""
    rows = Run.objects.filter(repository_id__in=repository_ids, version__gt=0)
    return rows.select_related("task", "repository").order_by("-created_at", "-pk")


def newest_runs(repository_ids: Sequence[str], *, runs: int, events: int) -> list[Run]:
    """The newest of them, at most so many runs with at most so many events in all; one that is longer than
    what is left is passed over. One query."""
    found: list[Run] = []
    room = events
    for run in recorded_runs(repository_ids).defer("state")[:runs]:
        if run.version <= room:
            room -= run.version
            found.append(run)
    return found


def simulate_runs(
    rows: Iterator[Run], *, policies: Mapping[str, Effective], in_force: Mapping[str, Effective]
) -> Iterator[SimulatedRun]:
    """Each run under its repository's policy in ``policies``; what differs, under the one in force as well.

    Three queries for each piece of runs.
    """
    for piece in _pieces(rows):
        for run, recorded in _recorded(piece):
            simulated = simulate(recorded, policies[run.repository_id].values)
            already: tuple[Difference, ...] = ()
            if simulated.differences:
                now = in_force[run.repository_id]
                already = tuple(
                    one for one in simulate(recorded, now.values).differences if one in simulated.differences
                )
            yield SimulatedRun(run, simulated, already)


def simulate_rejections(
    repository_ids: Sequence[str], policies: Mapping[str, Effective]
) -> Iterator[SimulatedIntake]:
    """The tasks that were rejected at their submission and whose reasons would be others. One query."""
    rows = Task.objects.filter(repository_id__in=repository_ids, status=TaskStatus.REJECTED.value)
    for task in rows.order_by("pk").iterator(chunk_size=500):
        reasons = rejection_reasons(task.contract, policies[task.repository_id].values)
        if reasons != task.state.get("rejection_reasons"):
            yield SimulatedIntake(task, tuple(reasons))


def _pieces(rows: Iterator[Run]) -> Iterator[list[Run]]:
    piece: list[Run] = []
    events = 0
    for run in rows:
        if piece and events + run.version > _PIECE:
            yield piece
            piece, events = [], 0
        piece.append(run)
        events += run.version
    if piece:
        yield piece


def _recorded(runs: Sequence[Run]) -> Iterator[tuple[Run, Recorded]]:
    ids = [run.pk for run in runs]
    logs: dict[str, list[Event]] = defaultdict(list)
    for row in RunEvent.objects.filter(run_id__in=ids).order_by("run_id", "sequence").iterator():
        logs[row.run_id].append(row.as_fact())
    kept: dict[str, dict[str, Artifact]] = defaultdict(dict)
    for one in ArtifactRow.objects.filter(run_id__in=ids).iterator():
        kept[one.run_id][one.pk] = Artifact(one.pk, one.kind, one.sha256, one.size, one.facts, one.document)
    before = _before(runs)
    limits = LogLimits(settings.RUN_MAX_EVENTS, settings.RUN_MAX_LOG_BYTES)
    for run in runs:
        last, spent = before.get(run.pk, (None, Decimal(0)))
        log = tuple(logs.get(run.pk, ()))
        yield run, Recorded(log, run.version, run.task.contract, kept.get(run.pk, {}), last, spent, limits)


def _before(runs: Sequence[Run]) -> dict[str, tuple[RunState, Decimal]]:
    """Run id → the run before it, and what all before it cost; nothing for first runs."""
    later = {run.task_id for run in runs if run.attempt_no > 1}
    if not later:
        return {}
    names = ("task_id", "attempt_no", "cost_usd", "state")
    rows = Run.objects.filter(task_id__in=later).order_by("attempt_no").values_list(*names)
    by_task: dict[str, list[tuple[int, Decimal, Json]]] = defaultdict(list)
    for task_id, number, cost, state in rows:
        by_task[task_id].append((number, cost, state))
    found: dict[str, tuple[RunState, Decimal]] = {}
    for run in runs:
        earlier = [one for one in by_task.get(run.task_id, ()) if one[0] < run.attempt_no]
        if earlier:
            spent = sum((cost for _, cost, _ in earlier), Decimal(0))
            found[run.pk] = (RunState.from_json(earlier[-1][2]), spent)
    return found
