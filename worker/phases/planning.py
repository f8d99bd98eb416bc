"""PLANNING: the plan, by the rules or by the model."""

from __future__ import annotations

from worker.phases.plans import make_plan
from worker.phases.preparing import asks_model
from worker.session import RunSession


def plan(session: RunSession) -> None:
    session.refresh()
    artifact = session.upload_json(
        "plan", _with_model(session) if asks_model(session) else make_plan(session.resume)
    )
    session.post("plan_created", plan_artifact_id=artifact.id)


def _with_model(session: RunSession) -> dict[str, object]:
    from worker.phases.model_planning import plan_with_model

    return plan_with_model(session)
