"""The chat completions protocol of OpenAI, which many servers speak.

Source: "Create chat completion" in OpenAI's API reference (`POST /chat/completions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.messages import (
    FinishReason,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from worker.client.protocol import Json
from worker.models.calling import HttpModel, Said

_FINISHED: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "content_filter": "content_filter",
}


class OpenAIModel(HttpModel):
    """Asks `url`/chat/completions; a server without keys gets none."""

    path = "/chat/completions"

    def __init__(self, name: str, *, url: str, key: str, provider: str = "openai") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        super().__init__(name, url=url, provider=provider, headers=headers)

    def write(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition], max_tokens: int | None
    ) -> Json:
        body: Json = {"model": self.model_name, "messages": list(_messages(messages))}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if max_tokens:
            body["max_completion_tokens"] = max_tokens
        return body

    def read(self, answer: Json) -> Said:
        choice = answer["choices"][0]
        parts = list(_parts(choice["message"]))
        return Said(parts, _usage(answer.get("usage")), _FINISHED.get(str(choice.get("finish_reason"))))


def _messages(messages: Sequence[ModelMessage]) -> Iterator[Json]:
    for message in messages:
        if isinstance(message, ModelResponse):
            yield _said_by_model(message)
            continue
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                yield {"role": "system", "content": part.content}
            elif isinstance(part, UserPromptPart):
                yield {"role": "user", "content": part.content}
            elif isinstance(part, ToolReturnPart):
                yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": str(part.content)}


def _said_by_model(response: ModelResponse) -> Json:
    said: Json = {"role": "assistant", "content": response.text or None}
    if calls := response.tool_calls:
        said["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": call.args_as_json_str()},
            }
            for call in calls
        ]
    return said


def _tool(tool: ToolDefinition) -> Json:
    function = {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.parameters_json_schema,
    }
    return {"type": "function", "function": function}


def _parts(message: Json) -> Iterator[ModelResponsePart]:
    if text := message.get("content"):
        yield TextPart(content=str(text))
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield ToolCallPart(
            tool_name=str(function["name"]),
            args=function.get("arguments") or "{}",
            tool_call_id=str(call["id"]),
        )


def _usage(usage: Any) -> RequestUsage:
    """Tokens as reported; where the server reports none, none are invented."""
    if not isinstance(usage, dict):
        return RequestUsage()
    details = usage.get("prompt_tokens_details") or {}
    return RequestUsage(
        input_tokens=int(usage.get("prompt_tokens") or 0),
        output_tokens=int(usage.get("completion_tokens") or 0),
        cache_read_tokens=int(details.get("cached_tokens") or 0),
    )
