"""The conversation with the model, made from the run's events. Pure but for fetching artifacts.

A decision's content is an artifact, a call's result stands in its `tool_completed`, an answer of a
person in `approved`. Nothing else is needed: whoever reads the same events holds the same talk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from worker.agents.job import as_text
from worker.client.protocol import Json
from worker.loop.tools import ASK, FINISH

Fetch = Callable[[str], bytes]

LEFT_OUT = "[this output was left out to save space; ask for it again if you need it]"
NO_RESULT = "[no result]"
_FEEDBACK = frozenset({"verification_failed_retryable", "judge_requires_fix"})


@dataclass(frozen=True)
class Call:
    """One tool call of a decision; its operation id is the same whoever makes it."""

    operation_id: str
    part: ToolCallPart

    @property
    def tool(self) -> str:
        return self.part.tool_name

    @property
    def arguments(self) -> Any:
        """As the model sent them: an object, or what it sent in place of one."""
        if isinstance(self.part.args, str):
            try:
                return json.loads(self.part.args or "{}")
            except ValueError:
                return self.part.args
        return self.part.args or {}


@dataclass
class Turn:
    """A decision and what came of it: results by operation id, then what people or checks said."""

    response: ModelResponse
    results: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


@dataclass
class Conversation:
    """Of one attempt. `prefix` begins the operation ids of its calls."""

    opening: ModelRequest
    prefix: str
    turns: list[Turn] = field(default_factory=list)

    def decide(self, response: ModelResponse) -> None:
        self.turns.append(Turn(response))

    def calls(self, number: int) -> list[Call]:
        """The calls of a turn, finish apart: it calls for nothing."""
        parts = [part for part in self.turns[number].response.tool_calls if part.tool_name != FINISH]
        return [Call(f"{self.prefix}.s{number}.{index}", part) for index, part in enumerate(parts)]

    def open_calls(self) -> list[Call]:
        """Calls of the last turn that have no result yet."""
        if not self.turns:
            return []
        done = self.turns[-1].results
        return [call for call in self.calls(len(self.turns) - 1) if call.operation_id not in done]

    def answered(self, call: Call, text: str) -> None:
        self.turns[-1].results[call.operation_id] = text

    def final(self) -> str | None:
        """The model's last word, where it has said it and nobody answered."""
        if not self.turns or self.turns[-1].said:
            return None
        return final_of(self.turns[-1].response)

    def messages(self, *, most_characters: int) -> list[ModelMessage]:
        """The whole talk; of results, the oldest are left out where it would be too long."""
        written: list[ModelMessage] = [self.opening]
        for number, turn in enumerate(self.turns):
            written.append(turn.response)
            parts = [*self._returns(number, turn), *(UserPromptPart(content=text) for text in turn.said)]
            if parts:
                written.append(ModelRequest(parts=parts))
        return shortened(written, most_characters=most_characters)

    def _returns(self, number: int, turn: Turn) -> list[ModelRequestPart]:
        ids = {id(call.part): call.operation_id for call in self.calls(number)}
        return [
            ToolReturnPart(
                tool_name=part.tool_name,
                content=turn.results.get(ids.get(id(part), ""), NO_RESULT) if id(part) in ids else "Noted.",
                tool_call_id=part.tool_call_id,
            )
            for part in turn.response.tool_calls
        ]


def final_of(response: ModelResponse) -> str | None:
    """The last word of a response that ends the work, or None."""
    for part in response.tool_calls:
        if part.tool_name == FINISH:
            arguments = Call("", part).arguments
            summary = arguments.get("summary") if isinstance(arguments, dict) else None
            return str(summary or response.text or "")
    return None if response.tool_calls else (response.text or "")


def rebuild(
    events: Iterable[Mapping[str, Any]],
    *,
    opening: ModelRequest,
    prefix: str,
    attempt: int,
    instructions: Mapping[int, str],
    fetch: Fetch,
) -> Conversation:
    """The conversation of the open attempt as the events tell it."""
    conversation = Conversation(opening, prefix)
    reader = _Reader(conversation, dict(instructions), fetch)
    for event in events:
        if event.get("attempt") == attempt:
            reader.read(str(event["type"]), event, event.get("payload") or {}, event.get("facts") or {})
    return conversation


def dump_response(response: ModelResponse, mask: Callable[[str], str]) -> bytes:
    """The response as an artifact keeps it, without secrets."""
    document = json.loads(ModelMessagesTypeAdapter.dump_json([response]))
    return json.dumps(masked(document, mask), ensure_ascii=False).encode("utf-8", "replace")


def load_response(data: bytes) -> ModelResponse:
    (message,) = ModelMessagesTypeAdapter.validate_json(data)
    if not isinstance(message, ModelResponse):
        raise TypeError("the content of a decision is no response of a model")
    return message


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """The same document with every text in it masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: masked(item, mask) for key, item in value.items()}
    return [masked(item, mask) for item in value] if isinstance(value, list) else value


def shortened(messages: Sequence[ModelMessage], *, most_characters: int) -> list[ModelMessage]:
    """The same talk with the oldest results left out, so many that it fits."""
    excess = sum(_length(message) for message in messages) - most_characters
    written: list[ModelMessage] = []
    for message in messages:
        if excess > 0 and isinstance(message, ModelRequest):
            parts = [_left_out(part) for part in message.parts]
            excess -= _length(message) - sum(
                len(str(part.content)) for part in parts if hasattr(part, "content")
            )
            message = replace(message, parts=parts)  # noqa: PLW2901 - the shortened one takes its place
        written.append(message)
    return written


def _left_out(part: ModelRequestPart) -> ModelRequestPart:
    long = isinstance(part, ToolReturnPart) and len(str(part.content)) > len(LEFT_OUT)
    return replace(part, content=LEFT_OUT) if long else part  # type: ignore[arg-type]


def _length(message: ModelMessage) -> int:
    if isinstance(message, ModelResponse):
        return len(message.text or "") + sum(len(part.args_as_json_str()) for part in message.tool_calls)
    return sum(len(str(part.content)) for part in message.parts if hasattr(part, "content"))


@dataclass
class _Reader:
    conversation: Conversation
    instructions: dict[int, str]
    fetch: Fetch
    gates: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def read(self, type_: str, event: Mapping[str, Any], payload: Json, facts: Json) -> None:
        if type_ == "model_decision" and event.get("from_status") == "EXECUTING":
            if payload.get("content_artifact_id"):
                self.conversation.decide(load_response(self.fetch(payload["content_artifact_id"])))
        elif type_ == "tool_completed":
            self._result(str(payload["operation_id"]), self._text_of(payload))
        elif type_ == "human_approval_required":
            self.gates[str(payload.get("approval_id"))] = payload
        elif type_ in ("approved", "rejected"):
            self._decided(type_, payload)
        elif type_ in _FEEDBACK:
            self._say(f"Your change was looked at, and is not right yet:\n{as_text(feedback_text(facts))}")
        elif type_ == "instruction_added":
            text = self.instructions.get(int(facts.get("instruction_no") or 0), "")
            self._say(f"A later instruction, which holds as well:\n{text}")

    def _text_of(self, payload: Json) -> str:
        if artifact := payload.get("output_artifact_id"):
            return self.fetch(artifact).decode("utf-8", "replace")
        return str(payload.get("summary") or payload.get("outcome") or "")

    def _decided(self, type_: str, payload: Json) -> None:
        gate = self.gates.get(str(payload.get("approval_id"))) or {}
        comment = str(payload.get("comment") or "")
        if gate.get("gate") == "question":
            asked = [call for call in self.conversation.open_calls() if call.tool == ASK]
            for call in asked[:1]:
                self.conversation.answered(call, comment if type_ == "approved" else "No answer.")
        elif gate.get("gate") == "tool_call" and type_ == "rejected":
            self._result(str(gate.get("operation_id")), f"A person refused this call: {comment}")

    def _result(self, operation_id: str, text: str) -> None:
        for number, turn in enumerate(self.conversation.turns):
            if operation_id.startswith(f"{self.conversation.prefix}.s{number}."):
                turn.results[operation_id] = text

    def _say(self, text: str) -> None:
        for turn in self.conversation.turns[-1:]:
            turn.said.append(text)


def feedback_text(facts: Mapping[str, Any]) -> Any:
    """What a check or the judge said, from the facts of its event."""
    feedback = facts.get("feedback")
    return feedback.get("text") if isinstance(feedback, Mapping) else feedback
