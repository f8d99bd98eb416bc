"""The messages protocol of Anthropic.

Source: "Messages" in Anthropic's API reference (`POST /v1/messages`, version 2023-06-01).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.messages import (
    FinishReason,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from worker.client.protocol import Json
from worker.models.calling import HttpModel, Said

VERSION = "2023-06-01"
# The protocol wants a limit: long enough for a file to be written in one call.
MOST_TOKENS = 16_000
_CACHED = {"cache_control": {"type": "ephemeral"}}
_FINISHED: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_call",
    "refusal": "content_filter",
}


class AnthropicModel(HttpModel):
    """Asks `url`/v1/messages."""

    path = "/v1/messages"

    def __init__(self, name: str, *, url: str, key: str) -> None:
        headers = {"x-api-key": key, "anthropic-version": VERSION}
        super().__init__(name, url=url, provider="anthropic", headers=headers)

    def write(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition], max_tokens: int | None
    ) -> Json:
        body: Json = {
            "model": self.model_name,
            "max_tokens": max_tokens or MOST_TOKENS,
            "messages": _messages(messages),
        }
        if system := _system(messages):
            body["system"] = [{"type": "text", "text": system, **_CACHED}]
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        return body

    def read(self, answer: Json) -> Said:
        parts = list(_parts(answer["content"]))
        return Said(parts, _usage(answer.get("usage")), _FINISHED.get(str(answer.get("stop_reason"))))


def _system(messages: Sequence[ModelMessage]) -> str:
    found = (
        part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, SystemPromptPart)
    )
    return "\n\n".join(found)


def _messages(messages: Sequence[ModelMessage]) -> list[Json]:
    """Turns in alternation, the last of them cached: the next request begins with all of this."""
    turns: list[Json] = []
    for message in messages:
        role = "assistant" if isinstance(message, ModelResponse) else "user"
        blocks = list(_blocks(message))
        if not blocks:
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    if turns and turns[-1]["role"] == "user":
        turns[-1]["content"][-1] = {**turns[-1]["content"][-1], **_CACHED}
    return turns


def _blocks(message: ModelMessage) -> Iterator[Json]:
    for part in message.parts:
        if isinstance(part, TextPart) and part.content:
            yield {"type": "text", "text": part.content}
        elif isinstance(part, ThinkingPart) and part.signature:
            yield {"type": "thinking", "thinking": part.content, "signature": part.signature}
        elif isinstance(part, ToolCallPart):
            arguments = part.args_as_dict()
            yield {"type": "tool_use", "id": part.tool_call_id, "name": part.tool_name, "input": arguments}
        elif isinstance(part, UserPromptPart):
            yield {"type": "text", "text": str(part.content)}
        elif isinstance(part, ToolReturnPart):
            yield {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": str(part.content)}


def _tool(tool: ToolDefinition) -> Json:
    return {
        "name": tool.name,
        "description": tool.description or "",
        "input_schema": tool.parameters_json_schema,
    }


def _parts(blocks: Sequence[Json]) -> Iterator[ModelResponsePart]:
    for block in blocks:
        if block["type"] == "text":
            yield TextPart(content=block["text"])
        elif block["type"] == "thinking":
            yield ThinkingPart(
                content=block["thinking"], signature=block.get("signature"), provider_name="anthropic"
            )
        elif block["type"] == "tool_use":
            yield ToolCallPart(tool_name=block["name"], args=block["input"], tool_call_id=block["id"])


def _usage(usage: Any) -> RequestUsage:
    """pydantic-ai counts what was cached into the input; Anthropic reports it beside."""
    if not isinstance(usage, dict):
        return RequestUsage()
    fresh, read, written = (
        int(usage.get(name) or 0)
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return RequestUsage(
        input_tokens=fresh + read + written,
        output_tokens=int(usage.get("output_tokens") or 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
