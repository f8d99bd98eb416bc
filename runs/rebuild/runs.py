"""A run's rows against its log."""

from __future__ import annotations

from collections.abc import Iterator

from runs import projections, store
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.models import Attempt, FoldCheckpoint, PullRequest, Run, RunOutcome, Step
from runs.rebuild import checkpoints
from runs.rebuild.comparing import Difference, compare, compare_rows
from runs.rebuild.folding import Folded, fold_run


def run_differences(run: Run, *, whole: bool) -> Iterator[Difference]:
    """Where a locked run's rows differ from its log. ``whole`` goes on from no checkpoint."""
    start, wrong = checkpoints.load(run)
    if wrong:
        yield Difference(run.pk, "checkpoint", "content", wrong, "no such checkpoint")
    begun = start.state.sequence if start else 0
    folded = fold_run(run, None if whole else start)
    yield from _compare(run, folded)
    if folded.chain_holds and folded.state.sequence - begun >= checkpoints.EVERY:
        checkpoints.save(run, folded)


def _compare(run: Run, folded: Folded) -> Iterator[Difference]:
    state = folded.state
    yield from compare(run.pk, "run", run, _columns(run, state))
    rows = {str(row.number): row for row in Attempt.objects.filter(run=run)}
    yield from compare_rows(run.pk, "attempt", rows, _attempts(folded))
    yield from compare_rows(
        run.pk, "step", {row.operation_id: row for row in Step.objects.filter(run=run)}, _steps(folded)
    )
    recorded = PullRequest.objects.filter(run=run).exists()
    if recorded != bool(state.pull_request):
        yield Difference(run.pk, "pull_request", "exists", recorded, bool(state.pull_request))
    ended = {row.status: row for row in RunOutcome.objects.filter(run=run)}
    yield from compare_rows(run.pk, "outcome", ended, _outcomes(run, state))
    for follower in projections.followers():
        found = {row.pk: row for row in follower.model.objects.filter(run=run)}
        yield from compare_rows(run.pk, follower.name, found, _others(follower, folded))


def _columns(run: Run, state: RunState) -> Json:
    return {**store.row_columns(state, store.surroundings(run)), "status": state.status}


def _attempts(folded: Folded) -> dict[str, Json]:
    found = folded.changes.attempts.items()
    return {str(number): store.attempt_columns(values) for number, values in found}


def _steps(folded: Folded) -> dict[str, Json]:
    found = folded.changes.steps.items()
    return {name: store.step_columns(values) for name, values in found if "kind" in values}


def _outcomes(run: Run, state: RunState) -> dict[str, Json]:
    """The one row of a run that ended, by its status; else none."""
    return {state.status: store.outcome_of(run, state, run.task.contract)} if state.is_terminal else {}


def _others(follower: projections.Rows, folded: Folded) -> dict[str, Json]:
    return {key: follower.columns(values) for key, values in folded.others.get(follower.name, {}).items()}


def rewrite_run(run: Run) -> None:
    """Write a locked run's rows as its log says."""
    folded = fold_run(run)
    columns = _columns(run, folded.state)
    Run.objects.filter(pk=run.pk).update(**columns)
    for values in _outcomes(run, folded.state).values():
        RunOutcome.objects.update_or_create(run=run, defaults={**values, "cost_usd": columns["cost_usd"]})
    attempts, steps = _attempts(folded), _steps(folded)
    Attempt.objects.filter(run=run).exclude(number__in=attempts).delete()
    for number, values in attempts.items():
        Attempt.objects.update_or_create(run=run, number=number, defaults=values)
    Step.objects.filter(run=run).exclude(operation_id__in=steps).delete()
    for name, values in steps.items():
        Step.objects.update_or_create(run=run, operation_id=name, defaults=values)
    for follower in projections.followers():
        rows = _others(follower, folded)
        follower.model.objects.filter(run=run).exclude(pk__in=rows).delete()
        for key, values in rows.items():
            follower.model.objects.update_or_create(pk=key, defaults={"run": run, **values})
    FoldCheckpoint.objects.filter(run=run).delete()
