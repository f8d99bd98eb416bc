"""What a model may ask for: names, schemas, effects; which calls wait for a person. Pure but for `run`."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from worker.client.protocol import Json
from worker.sandbox.folder import Checkout
from worker.sandbox.process import CappedOutput, Command, Result
from worker.sandbox.workspace import NotInWorkspace, Workspace

Effect = Literal["none", "workspace", "outside"]
Outcome = Literal["succeeded", "failed", "timed_out", "skipped"]

MOST_SHOWN_BYTES = 24_000
ASK, FINISH = "ask", "finish"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class CannotCall(Exception):  # noqa: N818  named by what happened
    """The call makes no sense as it is; the message tells the model what to do."""


@dataclass(frozen=True)
class Workbench:
    """What tools work with. `execute` runs a command in the sandbox, its output masked."""

    checkout: Checkout
    directory: Path
    execute: Callable[[Command], Result]
    environment: Mapping[str, str]
    operation_id: str = ""
    longest_seconds: float = 600.0
    kill_after_seconds: float = 10.0

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.checkout.path)


@dataclass(frozen=True)
class ToolResult:
    """`text` is what the model gets to read, capped; `stopped` where the run's end broke the call off."""

    text: str
    outcome: Outcome = "succeeded"
    exit_code: int | None = None
    stopped: bool = False


@dataclass(frozen=True)
class Tool:
    """`run` may raise CannotCall or NotInWorkspace. `reconcile` says, under the call's operation id, what
    became of it: a result, or None where it cannot be told or did not happen."""

    name: str
    description: str
    parameters: Json
    effect: Effect
    run: Callable[[Workbench, Json], ToolResult]
    label: Callable[[Json], str]
    reconcile: Callable[[Workbench, Json], ToolResult | None] | None = None

    def call(self, bench: Workbench, arguments: Json) -> ToolResult:
        """The result, whatever the model asked for."""
        try:
            check_arguments(self.parameters, arguments)
            return self.run(bench, arguments)
        except (CannotCall, NotInWorkspace) as error:
            return ToolResult(f"Error: {error}", "failed")


@dataclass(frozen=True)
class Approvals:
    """Which calls wait for a person: `run`, or `run(*git push*)` for any text argument of that form."""

    patterns: Sequence[tuple[str, str]] = field(default_factory=tuple)

    @classmethod
    def parse(cls, rules: Iterable[Any]) -> Approvals:
        return cls(tuple(_pattern(str(rule)) for rule in rules))

    def needed(self, tool: str, arguments: Json) -> bool:
        texts = list(_texts(arguments))
        return any(
            fnmatch.fnmatchcase(tool, name)
            and (not pattern or any(fnmatch.fnmatchcase(text, pattern) for text in texts))
            for name, pattern in self.patterns
        )


def check_arguments(schema: Json, arguments: Any) -> None:
    """Raises CannotCall with every wrong field."""
    if not isinstance(arguments, dict):
        raise CannotCall("the arguments must be an object")
    known = schema.get("properties") or {}
    wrong = [f"{name} is required" for name in schema.get("required") or () if arguments.get(name) is None]
    wrong += [
        f"{name} must be of type {known[name]['type']}"
        for name, value in arguments.items()
        if name in known and value is not None and not _is(value, str(known[name].get("type") or ""))
    ]
    if wrong:
        raise CannotCall("; ".join(wrong))


def capped(output: bytes) -> str:
    """At most 24,000 bytes of it, head and tail, and how much lies between."""
    kept = CappedOutput(MOST_SHOWN_BYTES)
    kept.feed(output)
    return kept.value().decode("utf-8", "replace").replace("\0", "�")


def _pattern(rule: str) -> tuple[str, str]:
    name, bracket, rest = rule.partition("(")
    return name.strip(), rest.removesuffix(")") if bracket else ""


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _is(value: Any, type_: str) -> bool:
    wanted = _TYPES.get(type_)
    if wanted is None:
        return True
    return isinstance(value, wanted) and not (isinstance(value, bool) and type_ != "boolean")
