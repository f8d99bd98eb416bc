"""What a worker needs to begin a run or to go on with it, wherever it stands (REST contract, "Shapes")."""

from __future__ import annotations

from runs.api import shapes
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.tasks import TaskState
from runs.models import Run, Step
from runs.selectors import effective_policies


def resume(run: Run, state: RunState, policy: Json) -> Json:
    """The shape ``resume``; ``policy`` is the effective one. One query for the steps where there are any."""
    task, repository = run.task, run.repository
    steps = _steps(run.pk, [*state.pending, *state.lost])
    return {
        "task": {"title": task.title, "contract": task.contract},
        "repository": {
            "name": repository.name,
            "url": repository.url,
            "provider": repository.provider,
            "base_branch": task.contract["base_branch"] or repository.base_branch,
        },
        "policy": policy,
        "attempt": _attempt(state),
        "instruction": state.instruction_no,
        "instructions": shapes.instructions(TaskState.from_json(task.state)),
        "pending": [
            {**steps[operation], "approved": call["approved"]} for operation, call in state.pending.items()
        ],
        "operations": state.operations,
        "lost": [steps[operation] for operation in state.lost],
        "checkpoint": shapes.brief(state.checkpoint),
        "plan": shapes.brief(state.plan),
        "patch": shapes.brief(state.patch),
        "verification_report": shapes.brief(state.verification),
        "feedback": state.feedback,
        "hints": state.hints,
        "budget": {"limit": state.budget, "used": state.used},
    }


def policy_of(run: Run) -> Json:
    """The values in force for the run's repository. One query."""
    return effective_policies(repository_ids=[run.repository_id])[run.repository_id].values


def _attempt(state: RunState) -> Json | None:
    """The open attempt with what it used; null before the first and between two."""
    open_one = state.attempt
    if open_one is None:
        return None
    used = {name: open_one[name] for name in ("steps", "tool_calls", "repairs", "cost_usd")}
    names = ("number", "strategy", "started_at")
    return {**{name: open_one[name] for name in names}, "used": used}


def _steps(run_id: str, operations: list[str]) -> dict[str, Json]:
    if not operations:
        return {}
    rows = Step.objects.filter(run_id=run_id, operation_id__in=operations)
    return {row.operation_id: shapes.step(row) for row in rows}
