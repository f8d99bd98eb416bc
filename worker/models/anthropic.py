"""The messages protocol of Anthropic.

Source: "Messages" in Anthropic's API reference (`POST /v1/messages`, version 2023-06-01).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.exceptions import UnexpectedModelBehavior
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
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from worker.client.protocol import Json
from worker.models.calling import post_json

SECONDS = 600.0
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


class AnthropicModel(Model):
    """Asks `url`/v1/messages."""

    def __init__(self, name: str, *, url: str, key: str) -> None:
        super().__init__()
        self._name = name
        self._url = url.rstrip("/")
        self._headers = {"x-api-key": key, "anthropic-version": VERSION}

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return "anthropic"

    @property
    def base_url(self) -> str:
        return self._url

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        settings = model_settings or {}
        body: Json = {
            "model": self._name,
            "max_tokens": settings.get("max_tokens") or MOST_TOKENS,
            "messages": _messages(messages),
        }
        if system := _system(messages):
            body["system"] = [{"type": "text", "text": system, **_CACHED}]
        if tools := model_request_parameters.function_tools:
            body["tools"] = [_tool(tool) for tool in tools]
        seconds = settings.get("timeout") or SECONDS
        answer = await post_json(
            f"{self._url}/v1/messages",
            body,
            headers=self._headers,
            seconds=float(seconds) if isinstance(seconds, int | float) else SECONDS,
            model=self._name,
        )
        return self._response(answer)

    def _response(self, answer: Json) -> ModelResponse:
        try:
            parts = list(_parts(answer["content"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise UnexpectedModelBehavior(f"{self._name} answered without content") from error
        return ModelResponse(
            parts=parts,
            usage=_usage(answer.get("usage")),
            model_name=str(answer.get("model") or self._name),
            provider_name="anthropic",
            provider_url=self._url,
            provider_response_id=answer.get("id"),
            finish_reason=_FINISHED.get(str(answer.get("stop_reason"))),
        )


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
