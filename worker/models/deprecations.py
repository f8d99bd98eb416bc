"""What a scripted model says that follows deprecations: it knows no package, it reads what the checks say.

Python names a deprecated call, its successor and where it stands: "The 'warn' method is deprecated, use
'warning' instead". The model runs the checks, mends the file that the traceback ends in, and hands that in.
One error hides the next: where the checks fail again, it reads their report and mends what that points to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from worker.client.protocol import Json

_SAID = re.compile(r"The '(\w+)' \w+ is deprecated, use '(\w+)' instead")
# In a report the traceback stands within JSON, its quotes escaped.
_FRAME = re.compile(r'File \W*([^"\\\n]+\.py)')
_FOUND = re.compile(r"^\./([^:\n]+):\d+:(.*)$", re.MULTILINE)
_CHECKS, _FILES = "Your change is checked by:\n", " files:\n"

Message = Mapping[str, Any]


class _Deprecated(NamedTuple):
    """A name, its successor, and the files on the way there, the innermost first."""

    old: str
    new: str
    frames: Sequence[str]


def follow_deprecations(messages: Sequence[Message]) -> Json:
    """The next turn of a conversation in the protocol of OpenAI."""
    texts = [str(message.get("content") or "") for message in messages]
    heard = texts[-_results_at_the_end(messages) :]
    tool, arguments = _last_call(messages)
    if tool == "search" and (known := _latest(texts)):
        return _mend(known, heard[-1]) or _look_further(known, arguments)
    if tool in (None, "run") and (known := _latest(heard)):
        return _search(known, _file(known, texts))
    if tool is None:
        return _run_checks(texts)
    return _say(("finish", {"summary": _summary(_latest(texts))}))


def _results_at_the_end(messages: Sequence[Message]) -> int:
    """How many messages at the end answer the last turn; one where a person or a check spoke last."""
    results = takewhile(lambda message: message.get("role") == "tool", reversed(messages))
    return sum(1 for _ in results) or 1


def _last_call(messages: Sequence[Message]) -> tuple[str | None, Json]:
    """The call whose result came last, with its arguments; none where a person or a check spoke last."""
    if messages[-1].get("role") != "tool":
        return None, {}
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    function = next(c["function"] for c in reversed(calls) if c["id"] == messages[-1].get("tool_call_id"))
    return str(function["name"]), json.loads(function["arguments"])


def _latest(texts: Sequence[str]) -> _Deprecated | None:
    return next((said for text in reversed(texts) if (said := _read(text))), None)


def _read(text: str) -> _Deprecated | None:
    # A report gathers the errors first: the last mention is the one behind its traceback.
    found = next(reversed(list(_SAID.finditer(text))), None)
    if found is None:
        return None
    return _Deprecated(found[1], found[2], _FRAME.findall(text[: found.start()])[::-1])


def _run_checks(texts: Sequence[str]) -> Json:
    opening = next((text for text in texts if _CHECKS in text), "")
    lines = takewhile(lambda line: line.startswith("  "), opening.partition(_CHECKS)[2].splitlines())
    checks = [line.partition(": ")[2] for line in lines]
    return _say(*(("run", {"command": check}) for check in checks))


def _search(known: _Deprecated, path: str) -> Json:
    return _say(("search", {"pattern": rf"\b{known.old}\b", "path": path}))


def _look_further(known: _Deprecated, arguments: Json) -> Json:
    """The name may be put together elsewhere: in the folder, then anywhere, then nobody knows where."""
    path = str(arguments.get("path") or "")
    if not path:
        return _say(("finish", {"summary": f"{known.old} is used somewhere, but written nowhere."}))
    return _search(known, path.rpartition("/")[0])


def _mend(known: _Deprecated, found: str) -> Json | None:
    edits = dict.fromkeys(_FOUND.findall(found))
    calls = [
        (
            "replace",
            {"path": path, "old": line, "new": re.sub(rf"\b{known.old}\b", known.new, line), "all": True},
        )
        for path, line in edits
    ]
    return _say(*calls) if calls else None


def _file(known: _Deprecated, texts: Sequence[str]) -> str:
    """The innermost file of the traceback that the repository's map names."""
    opening = next((text for text in texts if _FILES in text), "")
    names = opening.partition(_FILES)[2].splitlines()
    ours = (name for frame in known.frames for name in names if frame.endswith(f"/{name}"))
    return next(ours, "")


def _summary(known: _Deprecated | None) -> str:
    return f"{known.new} is the successor of {known.old}." if known else "The checks speak of no deprecation."


def _say(*calls: tuple[str, Json]) -> Json:
    return {"calls": [{"tool": tool, "arguments": arguments} for tool, arguments in calls]}
