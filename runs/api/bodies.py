"""The bodies of requests as JSON Schema; payloads of events are read from ``runs.domain.payloads``."""

from __future__ import annotations

from typing import Final

from runs.api.requests import MAX_TEXTS, MAX_WAIT_SECONDS
from runs.api.words import ANY_OBJECT, FLAG, TEXT, WHOLE, body, many, mapping, one_of, or_null, ref
from runs.domain.agents import AGENT_KINDS, MAX_TOOLS, PRESETS
from runs.domain.campaigns.limits import CHANGEABLE, MAX_GROWTH, MAX_PACE, MEANINGS, MOST_PARTS
from runs.domain.campaigns.selection import MAX_LINE, MOST_LINES
from runs.domain.campaigns.words import Completion
from runs.domain.contract import CLOCKS, MAX_TITLE
from runs.domain.facts import Json
from runs.domain.guards import GUARDS
from runs.domain.holds import MAX_VALUE, SET_BY_PEOPLE
from runs.domain.payloads import MAX_TEXT, SHAPES, schema_of
from runs.domain.policy import BUDGET, ISOLATION
from runs.domain.table import PEOPLE_EVENTS, posting_roles
from runs.domain.vocabulary import (
    MACHINE_ROLES,
    CompletionMode,
    DecisionWord,
    Ev,
    PullRequestState,
    Risk,
)

MAX_BATCH: Final = 100

#: What machines may post, in the vocabulary's order. A lease is acquired by a claim, not by an event.
MACHINE_EVENTS: Final = tuple(
    event
    for event in Ev
    if event not in PEOPLE_EVENTS
    and event is not Ev.LEASE_ACQUIRED
    and posting_roles(event) & frozenset(MACHINE_ROLES)
)


def _name(event: Ev) -> str:
    return "".join(part.capitalize() for part in event.value.split("_"))


def _payload(event: Ev) -> Json:
    return {**schema_of(SHAPES.get(event, {})), "description": event.sentence or event.label}


def _event(event: Ev, **more: Json) -> Json:
    """One event as sent; where nothing of a payload is required it may be left out."""
    payload = f"{_name(event)}Payload"
    needs = ["payload"] if schema_of(SHAPES.get(event, {}))["required"] else []
    fields: dict[str, Json] = {
        "type": {"type": "string", "const": event.value},
        "payload": ref(payload),
        "expected_sequence": or_null(WHOLE),
        "occurred_at": or_null({"type": "string", "format": "date-time"}),
    }
    return body("type", *more, *needs, **more, **fields)


def _choice(suffix: str) -> Json:
    names = {event.value: f"{_name(event)}{suffix}" for event in MACHINE_EVENTS}
    return {
        "oneOf": [ref(name) for name in names.values()],
        "discriminator": {
            "propertyName": "type",
            "mapping": {value: f"#/components/schemas/{name}" for value, name in names.items()},
        },
    }


_KEY: Final[Json] = {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"}
_LABELS: Final[Json] = {"type": "array", "items": TEXT, "maxItems": 50}
_PATHS: Final[Json] = {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 200}
_MONEY: Final[Json] = {"oneOf": [{"type": "string"}, {"type": "number", "minimum": 0}]}
_VERIFIER: Final = body(
    "name", "command", name=TEXT, command=TEXT,
    timeout_seconds={"type": "integer", "minimum": 1, "maximum": 86_400},
)  # fmt: skip
_AGENT: Final = body(
    "kind", kind=one_of(AGENT_KINDS), command={"type": "string", "minLength": 1}, preset=one_of(PRESETS),
    model=TEXT, options={"type": "array", "items": TEXT}, requires_approval={"type": "array", "items": TEXT},
    tools={"type": "array", "items": {"type": "object"}, "maxItems": MAX_TOOLS}, script={"type": "object"},
)  # fmt: skip
_CONTRACT: Final[dict[str, Json]] = {
    "title": {"type": "string", "minLength": 1, "maxLength": MAX_TITLE},
    "base_branch": TEXT,
    "working_directory": TEXT,
    "instruction": {"type": "string", "minLength": 1, "maxLength": 100_000},
    "completion_mode": one_of(CompletionMode),
    "risk_level": one_of(Risk),
    "setup": _PATHS,
    "verifiers": {"type": "array", "items": _VERIFIER, "maxItems": 50},
    "allowed_paths": _PATHS,
    "forbidden_paths": _PATHS,
    "plan_approval": one_of(["required", "never"]),
    "auto_pr": FLAG,
    "agent": _AGENT,
    "priority": {"type": "integer", "minimum": 0, "maximum": 9},
    "labels": _LABELS,
    "needs": _LABELS,
    "budget": {
        "type": "object",
        "properties": {
            name: _MONEY if name == "max_cost_usd" else {"type": "integer", "minimum": 0} for name in BUDGET
        },
        "additionalProperties": False,
    },
    "timeouts": {
        "type": "object",
        "properties": {name: {"type": "integer", "minimum": 0} for name in CLOCKS},
        "additionalProperties": False,
    },
}
_SELECTION: Final[Json] = {
    "type": "array", "minItems": 1, "maxItems": MOST_LINES,
    "items": {"type": "string", "minLength": 1, "maxLength": MAX_LINE},
    "description": "Names or patterns, such as team-*; !pattern takes away what lines before it chose.",
}  # fmt: skip
_LIMITS: Final[dict[str, Json]] = {
    "first_wave": {"type": "integer", "minimum": 1, "maximum": MOST_PARTS},
    "growth": {"type": "integer", "minimum": 1, "maximum": MAX_GROWTH},
    "failure_limit_percent": {"type": "integer", "minimum": 1, "maximum": 100},
    "pull_requests_per_hour": or_null({"type": "integer", "minimum": 1, "maximum": MAX_PACE}),
    "max_cost_usd": or_null(_MONEY),
    "completion": one_of(Completion),
}
_LIMITS.update({name: {**schema, "description": MEANINGS[name]} for name, schema in _LIMITS.items()})
_REASON: Final[Json] = {"type": "string", "maxLength": 2_000}

BODIES: Final[dict[str, Json]] = {
    **{f"{_name(event)}Payload": _payload(event) for event in MACHINE_EVENTS},
    **{f"{_name(event)}Event": _event(event) for event in MACHINE_EVENTS},
    **{f"{_name(event)}Item": _event(event, key=_KEY) for event in MACHINE_EVENTS},
    "EventBody": _choice("Event"),
    "BatchItem": _choice("Item"),
    "BatchBody": body(
        "events", events={"type": "array", "items": ref("BatchItem"), "minItems": 1, "maxItems": MAX_BATCH}
    ),
    "ClaimBody": body(
        roles={"type": "array", "items": one_of(MACHINE_ROLES), "maxItems": MAX_TEXTS},
        labels={"type": "array", "items": TEXT, "maxItems": MAX_TEXTS},
        wait_seconds={"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS},
        isolation=one_of(ISOLATION),
        worker_version={"type": "string", "maxLength": 100},
    ),
    "NothingBody": body(),
    "ReasonBody": body(reason=_REASON),
    "CancelBody": body("reason", reason={**_REASON, "minLength": 1}),
    "TextBody": body("text", text={"type": "string", "minLength": 1, "maxLength": 20_000}),
    "InstructionBody": body("text", text={"type": "string", "minLength": 1, "maxLength": 100_000}),
    "TaskBody": body(
        "title", "repository", "instruction", "agent", repository=TEXT, submit=FLAG,
        dedupe_key={"type": "string", "maxLength": 255}, **_CONTRACT,
    ),
    "TaskChanges": body(**_CONTRACT),
    "CampaignBody": body(
        "contract", "repositories", contract=body(**_CONTRACT), repositories=_SELECTION, **_LIMITS
    ),
    "CampaignChanges": body(**{name: _LIMITS[name] for name in CHANGEABLE}),
    "DecisionBody": body(
        "decision", "version", "subject_sha256", decision=one_of(DecisionWord),
        version={"type": "integer", "minimum": 1}, subject_sha256={"type": "string", "maxLength": 64},
        comment={"type": "string", "maxLength": MAX_TEXT}, arguments=or_null(ANY_OBJECT),
        budget=or_null(mapping({})), override=FLAG, remarks=many(ref("Remark")),
    ),
    "Remark": body(
        "path", "line", "text", path=TEXT, side=one_of(["new", "old"]),
        line={"type": "integer", "minimum": 1},
        text={"type": "string", "minLength": 1, "maxLength": MAX_TEXT},
    ),
    "HoldBody": body(
        "scope", "reason", scope=one_of(SET_BY_PEOPLE), value={"type": "string", "maxLength": MAX_VALUE},
        reason={**_REASON, "minLength": 1}, cancel_running=FLAG,
        expires_at=or_null({"type": "string", "format": "date-time"}),
    ),
    "WaiverBody": body(
        "guard", "reason", "version", guard=one_of(GUARDS), reason={**_REASON, "minLength": 1},
        version={"type": "integer", "minimum": 1},
    ),
    "AssignBody": body(to=or_null({"type": "string", "maxLength": 150})),
    "SnoozeBody": body(until=or_null({"type": "string", "format": "date-time"})),
    "PullRequestReport": body(
        state=one_of(PullRequestState), checks=one_of(["pending", "passed", "failed"])
    ),
}  # fmt: skip
