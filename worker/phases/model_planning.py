"""PLANNING for the agent kind `model`: the model says what it is going to do, and is held to it."""

from __future__ import annotations

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.tools import ToolDefinition

from worker.client.protocol import Json
from worker.loop.context import opening
from worker.loop.conversation import Call, masked
from worker.loop.recorded import recorded_response
from worker.loop.running import record_decision
from worker.models.asking import Interrupted, ModelFailed
from worker.models.scripted import PLAN_TOOL
from worker.phases.contexts import context_text
from worker.phases.failures import RunFailure
from worker.phases.looping import open_asker, request_text
from worker.phases.plans import make_plan
from worker.phases.preparing import agent_checkout
from worker.session import RunSession

_NEW_PLAN_AFTER = frozenset({"plan_created", "changes_requested", "instruction_added"})
_LISTS = ("files", "risks", "must_not_change")
_ASK_FOR_PLAN = (
    "Do not change anything yet. Say first what you are going to do: call submit_plan. Name the files"
    " that you will change as globs, as narrow as you can and as wide as you must: a change outside of"
    " them is sent back."
)
_TEXTS: Json = {"type": "array", "items": {"type": "string"}}
_TOOL = ToolDefinition(
    name=PLAN_TOOL,
    description="Hand the plan in.",
    parameters_json_schema={
        "type": "object",
        "properties": {
            **dict.fromkeys(_LISTS, _TEXTS),
            "stop_condition": {"type": "string"},
            "summary": {"type": "string"},
        },
        "required": ["files", "summary"],
    },
)


def plan_with_model(session: RunSession) -> Json:
    """The plan document. Raises RunFailure; what sessions raise."""
    response = recorded_response(session, status="PLANNING", outdated_by=_NEW_PLAN_AFTER)
    if response is None:
        response = _ask(session)
    plan: Json = masked(_merged(make_plan(session.resume), response), session.masker.mask_text)
    return plan


def _ask(session: RunSession) -> ModelResponse:
    checkout = agent_checkout(session, fresh=False)
    said = opening(session.resume, request=request_text(session), context=context_text(session, checkout))
    asked = ModelRequest(parts=[*said.parts, UserPromptPart(content=_ASK_FOR_PLAN)])
    with open_asker(session) as asker:
        try:
            response = asker.ask([asked], [_TOOL])
        except Interrupted:
            session.boundary()
            raise
        except ModelFailed as error:
            category = "INFRASTRUCTURE" if error.retryable else "PLANNING_FAILED"
            raise RunFailure(category, "model_failed", str(error), retryable=True) from error
        decision = record_decision(session, response, asker.cost_of(response))
    session.post("model_decision", **{**decision, "decision": "final"})
    session.boundary()
    return response


def _merged(usual: Json, response: ModelResponse) -> Json:
    """What the model said, on the plan that holds for any agent; of what it may not loosen, both."""
    said = next((_arguments(part) for part in response.tool_calls if part.tool_name == PLAN_TOOL), {})
    plan = dict(usual)
    for name in _LISTS:
        if items := [str(item) for item in said.get(name) or () if isinstance(item, str) and item.strip()]:
            plan[name] = items[:100] if name == "files" else list(dict.fromkeys([*usual[name], *items]))[:100]
    for name in ("stop_condition", "summary"):
        if isinstance(text := said.get(name), str) and text.strip():
            plan[name] = text[:5_000]
    return plan


def _arguments(part: ToolCallPart) -> Json:
    arguments = Call("", part).arguments
    return arguments if isinstance(arguments, dict) else {}
