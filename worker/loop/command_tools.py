"""Tools that run programs: the shell in the checkout, and a contract's own tools.

A contract's tool is a command. It reads its arguments as JSON on standard input and finds the
call's OPERATION_ID in its environment: the same for every repeat of one call, so that a tool with an
effect outside can have it once. Where it names a `reconcile` command, that one is asked first after
a call whose end nobody saw: status 0 says it happened, and its output is the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from worker.client.protocol import Json
from worker.loop.tools import Effect, Outcome, Tool, ToolResult, Workbench, capped
from worker.sandbox.process import Command, Result

RUN_SECONDS = 300.0
RECONCILE_SECONDS = 60.0


def _run(bench: Workbench, arguments: Json) -> ToolResult:
    seconds = float(arguments.get("timeout_seconds") or RUN_SECONDS)
    return _shown(bench.execute(_shell(bench, arguments["command"], seconds=seconds)))


RUN_TOOL = Tool(
    "run",
    "Run a shell command in the working directory. There is no network and nobody to answer prompts.",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Line for /bin/sh"},
            "timeout_seconds": {"type": "integer"},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    "workspace",
    _run,
    lambda arguments: f"Running {arguments.get('command')}",
)


def contract_tool(item: Mapping[str, Any]) -> Tool:
    """`{name, command, description?, parameters?, effect?, reconcile?}` as a tool."""
    name, command = str(item["name"]), str(item["command"])
    reconcile = item.get("reconcile")

    def run(bench: Workbench, arguments: Json) -> ToolResult:
        # The contract gave this tool to the agent; what it is for may lie outside.
        line = _shell(bench, command, seconds=RUN_SECONDS, arguments=arguments, network=True)
        result = bench.execute(line)
        if result.timed_out and reconcile and (happened := ask(bench, arguments)):
            return happened
        return _shown(result)

    def ask(bench: Workbench, arguments: Json) -> ToolResult | None:
        line = _shell(bench, str(reconcile), seconds=RECONCILE_SECONDS, arguments=arguments, network=True)
        result = bench.execute(line)
        return _shown(result) if result.ok else None

    return Tool(
        name,
        str(item.get("description") or name),
        dict(item.get("parameters") or {"type": "object", "properties": {}}),
        _effect(item),
        run,
        lambda arguments: f"Calling {name}",
        reconcile=ask if reconcile else None,
    )


def _effect(item: Mapping[str, Any]) -> Effect:
    effect = item.get("effect")
    return "none" if effect == "none" else "outside" if effect == "outside" else "workspace"


def _shell(
    bench: Workbench, line: str, *, seconds: float, arguments: Json | None = None, network: bool = False
) -> Command:
    return bench.checkout.command(
        ["/bin/sh", "-c", line],
        cwd=bench.directory,
        env={**bench.environment, "OPERATION_ID": bench.operation_id},
        network=network,
        stdin=json.dumps(arguments).encode() if arguments is not None else b"",
        timeout_seconds=max(1.0, min(seconds, bench.longest_seconds)),
        kill_after_seconds=bench.kill_after_seconds,
    )


def _shown(result: Result) -> ToolResult:
    outcome: Outcome = "timed_out" if result.timed_out else "succeeded" if result.ok else "failed"
    how = "it ran out of time" if result.timed_out else f"status {result.exit_code}"
    text = capped(result.output)
    return ToolResult(
        text if result.ok and text else f"{text}\n[{how}]".lstrip(),
        outcome,
        exit_code=result.exit_code,
        stopped=result.stopped,
    )
