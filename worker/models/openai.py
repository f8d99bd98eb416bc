"""The chat completions protocol of OpenAI, which many servers speak.

Source: "Create chat completion" in OpenAI's API reference (`POST /chat/completions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai.exceptions import UnexpectedModelBehavior
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
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from worker.client.protocol import Json
from worker.models.calling import post_json

SECONDS = 600.0
_FINISHED: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_call",
    "content_filter": "content_filter",
}


class OpenAIModel(Model):
    """Asks `url`/chat/completions; a server without keys gets none."""

    def __init__(self, name: str, *, url: str, key: str, provider: str = "openai") -> None:
        super().__init__()
        self._name = name
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._provider_name = provider

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return self._provider_name

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
        body: Json = {"model": self._name, "messages": list(_messages(messages))}
        if tools := model_request_parameters.function_tools:
            body["tools"] = [_tool(tool) for tool in tools]
        if most := settings.get("max_tokens"):
            body["max_completion_tokens"] = most
        seconds = settings.get("timeout") or SECONDS
        answer = await post_json(
            f"{self._url}/chat/completions",
            body,
            headers=self._headers,
            seconds=float(seconds) if isinstance(seconds, int | float) else SECONDS,
            model=self._name,
        )
        return self._response(answer)

    def _response(self, answer: Json) -> ModelResponse:
        try:
            choice = answer["choices"][0]
            parts = list(_parts(choice["message"]))
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise UnexpectedModelBehavior(f"{self._name} answered without a message") from error
        return ModelResponse(
            parts=parts,
            usage=_usage(answer.get("usage")),
            model_name=str(answer.get("model") or self._name),
            provider_name=self._provider_name,
            provider_url=self._url,
            provider_response_id=answer.get("id"),
            finish_reason=_FINISHED.get(str(choice.get("finish_reason"))),
        )


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
