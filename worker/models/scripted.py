"""A model that says what it was told to, over real HTTP in the protocol of OpenAI.

For demonstrations and tests, and for trying a contract without paying for it:

    {"plan": {…}, "turns": [{"text": "…", "calls": [{"tool": "run", "arguments": {…}}]}, …],
     "verdict": {…}}

Turn n answers a conversation in which the model has spoken n times: like a real model it keeps
nothing between two requests, so a conversation taken up by another worker goes on where it was.
After the last turn it says that it is done. `plan` and `verdict` answer where those are asked for.

`{"follows": "deprecations"}` in place of turns reads what it is told instead, see `deprecations.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from worker.client.protocol import Json
from worker.models.deprecations import follow_deprecations

LARGEST_REQUEST = 64 << 20
PLAN_TOOL, VERDICT_TOOL = "submit_plan", "submit_verdict"
_PLAN: Json = {"files": ["**"], "summary": "Work through the script."}
_VERDICT: Json = {"verdict": "pass", "confidence": 0.9, "reasons": ["as scripted"]}


class ScriptedModel:
    """Serves one script at `url` until closed. `faults` are statuses to answer with first, in order."""

    def __init__(self, script: Mapping[str, Any], *, faults: list[int] | None = None) -> None:
        self.script = dict(script)
        self.faults = list(faults or ())
        self.requests: list[Json] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.model = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: Json) -> Json:
        """A chat completion."""
        self.requests.append(request)
        spoken = sum(message.get("role") == "assistant" for message in request.get("messages", ()))
        return _completion(request, _turn(self.script, request, spoken), spoken)


def _turn(script: Json, request: Json, spoken: int) -> Json:
    offered = {tool["function"]["name"] for tool in request.get("tools", ())}
    for tool, name, usual in ((PLAN_TOOL, "plan", _PLAN), (VERDICT_TOOL, "verdict", _VERDICT)):
        if tool in offered:
            return {"calls": [{"tool": tool, "arguments": script.get(name) or usual}]}
    if script.get("follows") == "deprecations":
        return follow_deprecations(request["messages"])
    turns = script.get("turns") or []
    return dict(turns[spoken]) if spoken < len(turns) else {"text": "Done."}


def _completion(request: Json, turn: Json, spoken: int) -> Json:
    calls = [
        {
            "id": f"call_{spoken}_{index}",
            "type": "function",
            "function": {"name": call["tool"], "arguments": json.dumps(call.get("arguments") or {})},
        }
        for index, call in enumerate(turn.get("calls") or ())
    ]
    message = {"role": "assistant", "content": turn.get("text"), **({"tool_calls": calls} if calls else {})}
    finished = "tool_calls" if calls else "stop"
    # About four characters to a token, as real ones have it.
    sizes = {"prompt_tokens": len(json.dumps(request)) // 4, "completion_tokens": len(json.dumps(turn)) // 4}
    return {
        "id": f"scripted-{spoken}",
        "object": "chat.completion",
        "model": request.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finished}],
        "usage": sizes,
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        model: ScriptedModel = self.server.model  # type: ignore[attr-defined]
        length = min(int(self.headers.get("Content-Length") or 0), LARGEST_REQUEST)
        body = self.rfile.read(length)
        if model.faults:
            self._send(model.faults.pop(0), {"error": {"message": "as scripted"}})
        elif not self.path.endswith("/chat/completions"):
            self._send(404, {"error": {"message": f"nothing at {self.path}"}})
        else:
            self._send(200, model.answer(json.loads(body)))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing: requests are kept in `requests`."""

    def _send(self, status: int, document: Json) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
