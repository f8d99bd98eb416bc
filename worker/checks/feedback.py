"""From the output of a failed check to the few lines that help to repair it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from worker.client.protocol import Json

MOST_TESTS = 20
MOST_ERRORS = 10
TAIL_LINES = 30
LONGEST_LINE = 300

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_FAILED_TEST = re.compile(
    r"""^(?:
        (?:FAILED|ERROR)\s+(?P<pytest>\S+::\S+)
      | (?:FAIL|ERROR):\s+(?P<unittest>\w+\s+\([\w.]+\))
      | \s*---\s+FAIL:\s+(?P<go>\S+)(?:\s+\([\d.]+s\))?
      | \s*(?:✕|×|✖)\s+(?P<js>.+?)(?:\s+\(\d+\s*ms\))?
      | \s*●\s+(?P<jest>.+\s›\s.+)
      | \[ERROR\]\s+(?P<java>[\w.]+[.:]\w+:\d+.*)
      | test\s+(?P<rust>\S+)\s+\.\.\.\s+FAILED
      | not\ ok\s+\d+\s+-?\s*(?P<tap>.+)
    )\s*(?:-\s.*)?$""",
    re.VERBOSE,
)
_ERROR = re.compile(
    r"""^\s*(?:
        E\s{2,}\S.*
      | (?:[\w.]+\.)?\w*(?:Error|Exception|Warning|Failure|Exit)\b:.*
      | \S+:\d+(?::\d+)?:?\s+(?:error|warning|[A-Z]+\d+)\b.*
      | error(?:\[\w+\])?:.*
      | panic:.*
      | .*\bassertion\ failed\b.*
    )$""",
    re.VERBOSE | re.IGNORECASE,
)


def clean(text: str) -> str:
    """Without colours and control characters, which JSON and pages would have to refuse."""
    return _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


def decode(output: bytes) -> str:
    return clean(output.decode("utf-8", "replace"))


def last_lines(output: bytes, count: int = 3) -> str:
    """The end of an output, for a step's summary."""
    lines = [line.strip() for line in decode(output).splitlines() if line.strip()]
    return "\n".join(line[:LONGEST_LINE] for line in lines[-count:])


def command_feedback(*, name: str, exit_code: int, timed_out: bool, output: bytes) -> Json:
    """`{name, exit_code, timed_out, failing_tests, first_errors, tail}` of one failed check."""
    lines = [line[:LONGEST_LINE] for line in decode(output).splitlines()]
    return {
        "name": name,
        "exit_code": exit_code,
        "timed_out": timed_out,
        "failing_tests": _first(_failing(lines), MOST_TESTS),
        "first_errors": _first([line for line in lines if _ERROR.match(line)], MOST_ERRORS),
        "tail": [line for line in lines if line.strip()][-TAIL_LINES:],
    }


def summarize(commands: Sequence[Json]) -> str:
    """One sentence per failed check."""
    return "\n".join(_sentence(command) for command in commands)


def _sentence(command: Json) -> str:
    what = "ran out of time" if command["timed_out"] else f"ended with {command['exit_code']}"
    tests = command["failing_tests"]
    rest = f"; failing: {', '.join(tests[:5])}" if tests else ""
    return f"The check {command['name']} {what}{rest}."


def _failing(lines: Sequence[str]) -> list[str]:
    found = (_FAILED_TEST.match(line) for line in lines)
    return [next(filter(None, match.groups())).strip() for match in found if match]


def _first(items: Sequence[str], count: int) -> list[str]:
    return list(dict.fromkeys(items))[:count]
