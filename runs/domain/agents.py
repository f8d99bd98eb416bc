"""A contract's agent: its kinds, and what is wrong with one (lifecycle contract, section 2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from runs.domain.facts import Json

AGENT_KINDS: Final = ("script", "command", "model")
#: Command agents whose command line and output the worker knows.
PRESETS: Final = ("claude", "codex")
EFFECTS: Final = ("none", "workspace", "outside")
MAX_TOOLS: Final = 50

_TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_MODEL = re.compile(r"[!-~]{1,200}")


def check_agent(value: Any) -> str | None:
    """What is wrong, in words, or None. What is not known here is kept: a worker may know it."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or not value["kind"]:
        return "must be an object with a kind"
    if value["kind"] not in AGENT_KINDS:
        return f"kind must be one of: {', '.join(AGENT_KINDS)}"
    return _CHECKS[value["kind"]](value)


def agent_line(agent: Mapping[str, Any]) -> str:
    """What runs, in one line: the command, the preset's or the model's name."""
    return str(agent.get("command") or agent.get("preset") or agent.get("model") or "")


def _script(agent: Json) -> str | None:
    command = agent.get("command")
    return None if isinstance(command, str) and command.strip() else "command is required"


def _command(agent: Json) -> str | None:
    preset = agent.get("preset")
    if preset is None:
        return _script(agent)
    if preset not in PRESETS:
        return f"preset must be one of: {', '.join(PRESETS)}"
    if agent.get("command"):
        return "has a preset and a command; leave one of them out"
    options = agent.get("options", [])
    if not isinstance(options, list) or not all(isinstance(option, str) for option in options):
        return "options must be a list of texts"
    return _model_name(agent)


def _model(agent: Json) -> str | None:
    rules = agent.get("requires_approval", [])
    if not isinstance(rules, list) or not all(isinstance(rule, str) and rule.strip() for rule in rules):
        return "requires_approval must be a list such as run(*git push*)"
    if not isinstance(agent.get("script", {}), dict):
        return "script must be an object with turns"
    return _model_name(agent) or _tools(agent.get("tools", []))


def _model_name(agent: Json) -> str | None:
    name = agent.get("model", "")
    ok = name == "" or (isinstance(name, str) and _MODEL.fullmatch(name))
    return None if ok else "model must be a name such as openai:gpt-5"


def _tools(tools: Any) -> str | None:
    if not isinstance(tools, list) or len(tools) > MAX_TOOLS:
        return f"tools must be a list of at most {MAX_TOOLS}"
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            return "each tool needs a name of letters, digits, _ and -"
        if message := _tool(tool):
            return f"tool {name}: {message}"
    names = [tool["name"] for tool in tools]
    return "names of tools must differ" if len(set(names)) < len(names) else None


def _tool(tool: Json) -> str | None:
    for field in ("command", "reconcile"):
        line = tool.get(field, "" if field == "command" else None)
        if line is not None and (not isinstance(line, str) or not line.strip()):
            return f"{field} must be a shell line"
    if tool.get("effect", "workspace") not in EFFECTS:
        return f"effect must be one of: {', '.join(EFFECTS)}"
    return None if isinstance(tool.get("parameters", {}), dict) else "parameters must be a JSON Schema"


_CHECKS: Final[dict[str, Callable[[Json], str | None]]] = {
    "script": _script,
    "command": _command,
    "model": _model,
}
