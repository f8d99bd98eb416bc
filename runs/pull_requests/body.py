"""The text of a pull request: what was checked and by whom, from the run's own record. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from runs.domain.facts import Json
from runs.domain.state import RunState

MAX_SUMMARY: Final = 2_000
_MARKS: Final = {True: "passed", False: "failed", None: "unknown"}
#: What a forge would read as formatting, a mention, a reference or a link.
_ACTIVE = re.compile(r"([\\`*_{}\[\]()<>#+!|~@&-])")


@dataclass(frozen=True, slots=True)
class Said:
    """What a person did about the run: "approved", "voted", "waived secret_scan"."""

    by: str
    did: str
    comment: str
    at: datetime


def evidence_summary(
    state: RunState, contract: Mapping[str, Any], *, link: str, decisions: Iterable[Said] = ()
) -> str:
    """Markdown: request, checks, judge, guards, decisions, and where all of it can be read.

    Words of people, agents and repositories are escaped: they neither format nor mention.
    """
    parts = [
        f"## {inert(contract['title'])}",
        _quoted(contract["instruction"]),
        _run_lines(state, link),
        _section("Checks", _checks(state)),
        _section("Judge", _judge(state)),
        _section("Guards", _guards(state.guards)),
        _section("Decisions", [_decision(said) for said in decisions]),
        _agent(state),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def inert(text: str) -> str:
    """One line without effect in markdown; mentions and references are broken up."""
    return _ACTIVE.sub(r"\\\1", " ".join(text.split()))


def _quoted(text: str) -> str:
    lines = [inert(line) for line in text[:MAX_SUMMARY].splitlines()]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _run_lines(state: RunState, link: str) -> str:
    patch = state.patch or {}
    run = f"[{state.id}]({link})" if link else f"`{state.id}`"
    return (
        f"Run {run}, attempt {state.attempts_started}, risk {state.effective_risk}.\n"
        f"Patch `{patch.get('sha256', '')[:16]}` on base `{state.base_commit[:12]}`."
    )


def _section(title: str, lines: Sequence[str]) -> str:
    return f"### {title}\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def _checks(state: RunState) -> list[str]:
    commands: list[Json] = (state.verification or {}).get("commands", [])
    return [f"{inert(c['name'])}: exit code {c['exit_code']}" for c in commands]


def _judge(state: RunState) -> list[str]:
    if not state.judgement:
        return []
    verdict, confidence = state.judgement["verdict"], state.judgement.get("confidence")
    reasons = [inert(reason) for reason in state.judgement.get("reasons", [])]
    return [f"verdict {verdict}, confidence {confidence}", *reasons]


def _guards(guards: Iterable[Json]) -> list[str]:
    return [f"{inert(g['name'])}: {_MARKS[g['passed']]} ({inert(g['value'])})" for g in guards]


def _decision(said: Said) -> str:
    what = f"{inert(said.by)} {inert(said.did)} at {said.at:%Y-%m-%d %H:%M} UTC"
    return f"{what}: {inert(said.comment)}" if said.comment else what


def _agent(state: RunState) -> str:
    if not state.output_summary:
        return ""
    return f"### In the agent's own words (not checked)\n\n{_quoted(state.output_summary)}"
