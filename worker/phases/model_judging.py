"""JUDGING with a model: the operator's choice, beside the deterministic judge."""

from __future__ import annotations

import os

from pydantic_ai.messages import ModelResponse

from worker.checks.judge import Evidence
from worker.checks.model_judge import VERDICT, judge_request, merged_report
from worker.client.protocol import Json
from worker.loop.conversation import masked
from worker.loop.recorded import recorded_response
from worker.loop.running import record_decision
from worker.models import ModelUnknown, open_model
from worker.models.asking import Asker, Interrupted, ModelFailed
from worker.phases.failures import RunFailure
from worker.session import RunSession

_NEW_VERDICT_AFTER = frozenset({"verification_passed", "judge_passed", "judge_requires_fix"})


def judge_with_model(session: RunSession, evidence: Evidence, report: Json) -> Json:
    """The judge report of both. Raises RunFailure; what sessions raise."""
    response = recorded_response(session, status="JUDGING", outdated_by=_NEW_VERDICT_AFTER)
    if response is None:
        response = _ask(session, evidence)
    merged: Json = masked(merged_report(report, response, evidence=evidence), session.masker.mask_text)
    return merged


def _ask(session: RunSession, evidence: Evidence) -> ModelResponse:
    name, script = session.config.judge_model, evidence.contract.agent.get("script")
    try:
        opened = open_model(name, variables=os.environ, script=script)
    except ModelUnknown as error:
        raise RunFailure("INFRASTRUCTURE", "judge_model_unknown", str(error), retryable=False) from error
    with Asker(opened, must_stop=session.must_stop_now, patience=session.config.model_patience) as asker:
        try:
            response = asker.ask([judge_request(evidence)], [VERDICT])
        except Interrupted:
            session.boundary()
            raise
        except ModelFailed as error:
            raise RunFailure("INFRASTRUCTURE", "judge_model_failed", str(error), retryable=True) from error
        decision = record_decision(session, response, asker.cost_of(response))
    session.post("model_decision", **{**decision, "decision": "final"})
    session.boundary()
    return response
