"""One attempt of the loop: model, decision, request, run, outcome, until one of the ends.

Ends: the model's last word; a gate (the lease ends); a limit; a failure; a person's directive or
this worker's shutdown. Between any two events of an attempt the worker may die: what it announced
stands in `pending`, what it recorded is never done again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from pydantic_ai.messages import ModelResponse
from pydantic_ai.tools import ToolDefinition

from worker.client.errors import Refused
from worker.client.protocol import Answer, Json
from worker.loop.bounds import Bounds, OutOfBounds
from worker.loop.conversation import Call, Conversation, dump_response, final_of, masked
from worker.loop.tools import ASK, Approvals, Tool, ToolResult, Workbench
from worker.metrics import FIGURES
from worker.models.asking import Asker
from worker.sandbox.git import GitError
from worker.session import RunSession

logger = logging.getLogger("worker")

PATCH_TYPE = "text/x-diff"
# Shorter results stand in the event itself and need no artifact.
MOST_INLINE = 500
MOST_CHARACTERS = 400_000
LONGEST_LABEL = 200
MASK = "[masked]"


class AttemptEnded(Exception):  # noqa: N818  named by what happened
    """The control plane ended the attempt after an event: the next one starts clean."""


class WindingDown(Exception):  # noqa: N818  named by what happened
    """People want what there is, and no more."""


@dataclass
class Loop:
    """`run` works until the model has its last word, and returns it."""

    session: RunSession
    bench: Workbench
    asker: Asker
    conversation: Conversation
    bounds: Bounds
    tools: Mapping[str, Tool]
    definitions: Sequence[ToolDefinition]
    approvals: Approvals
    pending: dict[str, Json] = field(default_factory=dict)
    saved: bytes | None = None

    def run(self) -> str:
        """Raises AttemptEnded, WindingDown, OutOfBounds, ModelFailed, Interrupted."""
        while True:
            for call in self.conversation.open_calls():
                self._between()
                self._answer(call)
            if (last := self.conversation.final()) is not None:
                return last
            self._between()
            self._decide()

    def again(self, lost: Sequence[Json]) -> None:
        """Operations whose effect died with another worker's sandbox, in their order, on the checkpoint."""
        for step in lost:
            tool = self.tools.get(str(step["tool"]))
            if tool is not None:
                operation_id, arguments = str(step["operation_id"]), dict(step.get("arguments") or {})
                self._request(operation_id, tool, arguments, str(step.get("label") or tool.name))
                self._perform(operation_id, tool, arguments)

    def _between(self) -> None:
        self.session.boundary()
        if self.session.winding_down:
            raise WindingDown

    # --- the model's move ------------------------------------------------------------------------

    def _decide(self) -> None:
        self.bounds.before_model_call(now=time.monotonic())
        messages = self.conversation.messages(most_characters=MOST_CHARACTERS)
        response = self.asker.ask(messages, self.definitions)
        cost = self.asker.cost_of(response)
        self._post("model_decision", record_decision(self.session, response, cost))
        self.bounds.decided(cost)
        self.conversation.decide(response)

    # --- the tool's move -------------------------------------------------------------------------

    def _answer(self, call: Call) -> None:
        if call.tool == ASK:
            self._ask(call)
            return
        tool = self.tools.get(call.tool) or _unknown(call.tool, self.tools)
        known = self.pending.pop(call.operation_id, None)
        arguments = call.arguments if isinstance(call.arguments, dict) else {"arguments": call.arguments}
        if known is None:
            self._request(call.operation_id, tool, arguments, tool.label(arguments))
            result = self._perform(call.operation_id, tool, arguments)
        else:
            result = self._take_up(call, tool, arguments, known)
        self.conversation.answered(call, result.text)

    def _request(self, operation_id: str, tool: Tool, arguments: Json, label: str) -> None:
        mask = self.session.masker.mask_text
        same = f"{tool.name} {json.dumps(arguments, sort_keys=True)}"
        self.bounds.before_tool_call(effect=tool.effect, same=same, now=time.monotonic())
        payload: Json = {
            "operation_id": operation_id,
            "tool": tool.name,
            "arguments": masked(arguments, mask),
            "label": mask(" ".join(label.split()))[:LONGEST_LABEL] or tool.name,
            "effect": tool.effect,
        }
        if self.approvals.needed(tool.name, arguments):
            payload["requires_approval"] = True
        try:
            self._post("tool_requested", payload)
        except Refused as refused:
            if refused.code != "budget_exhausted":
                raise
            raise OutOfBounds(_limit_named(refused), str(refused)) from refused
        # A gate may have opened over this call: then the lease is over, and this raises.
        self.session.boundary()

    def _take_up(self, call: Call, tool: Tool, arguments: Json, known: Json) -> ToolResult:
        """A call that a worker announced and did not report: did it happen?"""
        asked_for = dict(known.get("arguments") or {})
        if known.get("approved"):
            # A person may have changed the arguments; they decided on these.
            arguments = asked_for
        if MASK in json.dumps(asked_for) and MASK not in json.dumps(arguments):
            arguments = asked_for
        bench = replace(self.bench, operation_id=call.operation_id)
        happened = tool.reconcile(bench, arguments) if tool.reconcile else None
        if happened is not None:
            return self._report(call.operation_id, tool, happened, 0)
        return self._perform(call.operation_id, tool, arguments)

    def _perform(self, operation_id: str, tool: Tool, arguments: Json) -> ToolResult:
        begun = time.monotonic()
        result = tool.call(replace(self.bench, operation_id=operation_id), arguments)
        if result.stopped:
            # Broken off by a cancel, a lost lease or a shutdown: left pending where it may be repeated.
            self.session.boundary()
        return self._report(operation_id, tool, result, int((time.monotonic() - begun) * 1000))

    def _report(self, operation_id: str, tool: Tool, result: ToolResult, milliseconds: int) -> ToolResult:
        """The outcome and, where files may have changed, the checkpoint: recorded together or not at all."""
        text = self.session.masker.mask_text(result.text)
        payload: Json = {
            "operation_id": operation_id,
            "outcome": result.outcome,
            "summary": text[:MOST_INLINE],
            "duration_ms": milliseconds,
        }
        if result.exit_code is not None:
            payload["exit_code"] = result.exit_code
        if len(text) > MOST_INLINE:
            payload["output_artifact_id"] = self.session.upload("output", text.encode()).id
        events = [("tool_completed", payload)]
        if tool.effect == "workspace" and (saved := self._checkpoint()):
            events.append(("checkpoint_saved", saved))
        self._watch(self.session.post_all(events))
        return replace(result, text=text)

    def _checkpoint(self) -> Json | None:
        checkout = self.bench.checkout
        try:
            patch = checkout.diff()
        except GitError as error:
            logger.warning("run %s: the work so far is unreadable: %s", self.session.run_id, error)
            return None
        artifact = self.session.upload("checkpoint", patch, content_type=PATCH_TYPE)
        return {"checkpoint_artifact_id": artifact.id, "base_commit": checkout.sandbox.base_commit}

    def _ask(self, call: Call) -> None:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        question = str(arguments.get("question") or "").strip()
        if not question:
            self.conversation.answered(call, "Error: the question is empty")
            return
        payload: Json = {"question": self.session.masker.mask_text(question)[:20_000]}
        if isinstance(choices := arguments.get("choices"), list):
            payload["choices"] = [str(choice)[:200] for choice in choices if str(choice)][:100]
        self._post("question_asked", payload)
        self.session.boundary()

    # --- events ----------------------------------------------------------------------------------

    def _post(self, type_: str, payload: Json) -> None:
        self._watch(self.session.post(type_, **payload))

    @staticmethod
    def _watch(answer: Answer) -> None:
        if "attempt_finished" in answer.followed_by:
            raise AttemptEnded


def record_decision(session: RunSession, response: ModelResponse, cost: Decimal | None) -> Json:
    """The payload of `model_decision`, its content stored. What is not known is left out."""
    mask = session.masker.mask_text
    content = session.upload("output", dump_response(response, mask), content_type="application/json")
    usage = response.usage
    payload: Json = {
        "decision": "tool" if final_of(response) is None else "final",
        "summary": mask(response.text or _calls(response))[:2_000],
        "provider": response.provider_name,
        "model": response.model_name,
        "content_artifact_id": content.id,
    }
    known = usage.has_values()
    FIGURES.asked(
        input_tokens=usage.input_tokens if known else None,
        output_tokens=usage.output_tokens if known else None,
        cost_usd=cost,
    )
    if known:
        payload |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if cost is not None:
        payload["cost_usd"] = format(cost, "f")
    return payload


def _calls(response: ModelResponse) -> str:
    return ", ".join(part.tool_name for part in response.tool_calls)


def _unknown(name: str, tools: Mapping[str, Any]) -> Tool:
    text = f"Error: there is no tool {name!r}, only {', '.join(sorted(tools))}"
    return Tool(
        name=name[:200] or "unnamed",
        description="",
        parameters={},
        effect="none",
        run=lambda bench, arguments: ToolResult(text, "failed"),
        label=lambda arguments: f"Calling {name}",
    )


def _limit_named(refused: Refused) -> str:
    detail = str(refused.problem.get("detail") or "")
    return next((word for word in detail.split() if word.startswith("max_")), "max_cost_usd")
