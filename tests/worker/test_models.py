"""Models over real HTTP: both protocols, busy providers, refusals, interruptions, what is not known."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from worker.models import ModelUnknown, open_model
from worker.models.asking import Asker, Interrupted, ModelFailed
from worker.models.patience import ModelPatience

HURRIED = ModelPatience(answer=5, busy=1.5, first_wait=0.01, longest_wait=0.02)
TOOL = ToolDefinition(name="read", description="Read", parameters_json_schema={"type": "object"})
TALK: list[ModelMessage] = [
    ModelRequest(parts=[SystemPromptPart(content="Be brief."), UserPromptPart(content="Hello")]),
    ModelResponse(parts=[TextPart(content="Reading."), ToolCallPart("read", {"path": "a"}, "call_0")]),
    ModelRequest(parts=[ToolReturnPart("read", "text of a", "call_0")]),
]
CLAUDE = {
    "id": "msg_1",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "text", "text": "Done."},
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "b"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5},
}


class Provider:
    """Answers with what is queued, in order: (status, headers, body); keeps what it was sent."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], Any]] = []
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                provider.seen.append((self.path, dict(self.headers), body))
                status, headers, document = provider.answers.pop(0)
                data = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def ask(provider: Provider) -> Callable[..., tuple[ModelResponse, Decimal | None]]:
    variables = {
        "OPENAI_BASE_URL": f"{provider.url}/v1",
        "OPENAI_API_KEY": "key-of-openai",
        "ANTHROPIC_BASE_URL": provider.url,
        "ANTHROPIC_API_KEY": "key-of-anthropic",
    }

    def once(
        name: str, *, must_stop: Callable[[], bool] = lambda: False
    ) -> tuple[ModelResponse, Decimal | None]:
        with Asker(open_model(name, variables=variables), must_stop=must_stop, patience=HURRIED) as asker:
            response = asker.ask(TALK, [TOOL])
            return response, asker.cost_of(response)

    return once


def completion(**more: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "b"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choices = [{"message": message, "finish_reason": "tool_calls"}]
    return {"id": "x", "model": "gpt-4o-mini", "choices": choices, **more}


def test_openai_is_spoken_as_its_reference_has_it(provider: Provider, ask: Callable[..., Any]) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 100}}
    provider.answers = [(200, {}, completion(usage=usage))]
    response, cost = ask("openai:gpt-4o-mini")
    path, headers, body = provider.seen[0]
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", "Bearer key-of-openai")
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path":"a"}'}
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "call_0", "content": "text of a"}
    assert body["tools"][0]["function"]["name"] == "read"
    assert response.tool_calls[0].args_as_dict() == {"path": "b"}
    assert (response.usage.input_tokens, response.usage.cache_read_tokens) == (1000, 100)
    assert cost is not None
    assert 0 < cost < Decimal("0.01")


def test_anthropic_is_spoken_as_its_reference_has_it(provider: Provider, ask: Callable[..., Any]) -> None:
    provider.answers = [(200, {}, CLAUDE)]
    response, cost = ask("anthropic:claude-sonnet-4-5")
    path, headers, body = provider.seen[0]
    assert (path, headers["x-api-key"]) == ("/v1/messages", "key-of-anthropic")
    assert body["system"][0]["text"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][2]["content"][0]["type"] == "tool_result"
    assert (response.text, response.tool_calls[0].tool_call_id) == ("Done.", "t1")
    assert (response.usage.input_tokens, response.usage.cache_read_tokens) == (100, 90)
    assert cost is not None


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 7, "completion_tokens": 1}])
def test_a_cost_that_nobody_knows_is_unknown_and_not_zero(
    provider: Provider, ask: Callable[..., Any], usage: dict[str, int] | None
) -> None:
    provider.answers = [(200, {}, completion(model="house-model-of-nobody", usage=usage))]
    response, cost = ask("openai:house-model-of-nobody")
    assert cost is None
    assert response.usage.has_values() is bool(usage)


def test_a_busy_provider_is_waited_for_within_the_step(provider: Provider, ask: Callable[..., Any]) -> None:
    busy = [(429, {"Retry-After": "0"}, {}), (529, {}, {}), (503, {}, b"no"), (200, {}, b"not json")]
    provider.answers = [*busy, (200, {}, completion())]
    response, _ = ask("openai:gpt-4o-mini")
    assert response.tool_calls
    assert len(provider.seen) == 5


@pytest.mark.parametrize(
    ("answers", "retryable", "calls"),
    [
        ([(401, {}, {"error": "no key"})], False, 1),
        ([(400, {}, {"error": "too long"})], False, 1),
        ([(429, {"Retry-After": "100"}, {})], True, 1),
        ([(200, {}, {"choices": []})] * 3, True, 3),
    ],
)
def test_what_waiting_does_not_help_is_a_failure_in_words(
    provider: Provider, ask: Callable[..., Any], answers: Any, retryable: bool, calls: int
) -> None:
    provider.answers = list(answers)
    with pytest.raises(ModelFailed, match="could not be asked") as failed:
        ask("openai:gpt-4o-mini")
    assert failed.value.retryable is retryable
    assert len(provider.seen) == calls


def test_a_stop_does_not_wait_for_the_model(provider: Provider, ask: Callable[..., Any]) -> None:
    provider.answers = [(429, {"Retry-After": "1"}, {})] * 3
    with pytest.raises(Interrupted):
        ask("openai:gpt-4o-mini", must_stop=lambda: bool(provider.seen))


@pytest.mark.parametrize("name", ["", "nobody:knows", "anthropic:claude-sonnet-4-5", "google:gemini-2.5-pro"])
def test_a_model_that_cannot_be_asked_is_said_with_what_to_do(name: str) -> None:
    with pytest.raises(ModelUnknown, match=r"extra|needs"):
        open_model(name, variables={})


def test_a_scripted_model_keeps_nothing_between_two_requests() -> None:
    script = {"turns": [{"text": "first"}, {"calls": [{"tool": "read", "arguments": {"path": "x"}}]}]}
    for _ in range(2):
        opened = open_model("scripted", variables={}, script=script)
        with Asker(opened, must_stop=lambda: False, patience=HURRIED) as asker:
            response = asker.ask(TALK, [TOOL])
            assert response.tool_calls[0].args_as_dict() == {"path": "x"}
            assert asker.cost_of(response) == 0
