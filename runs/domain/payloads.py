"""What each event may carry (REST contract, "Payloads"); ``versions`` says how older ones are read.

One shape per event type: field name → ``Field``. Shapes validate what callers send, describe the
OpenAPI schema and fill the reference. Unknown fields are kept and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from runs.domain.errors import Invalid
from runs.domain.vocabulary import Ev, FailureCategory

Json = dict[str, Any]
Check = Callable[[Any], str | None]

MAX_COST_USD: Final = Decimal(1_000_000)
MAX_TEXT: Final = 20_000
MAX_REASON: Final = 2_000
MAX_NAMES: Final = 100
MAX_NAME: Final = 200
_LONGEST_NUMBER: Final = 40


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``check`` returns what is wrong, in words, or None; ``schema`` is its JSON Schema."""

    check: Check
    schema: Json
    required: bool = True


def _text(limit: int = MAX_TEXT, *, required: bool = True, blank: bool = False) -> Field:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return "must be text"
        if not blank and not value.strip():
            return "must not be blank"
        return f"must have at most {limit} characters" if len(value) > limit else None

    return Field(check, {"type": "string", "maxLength": limit}, required)


def _pattern(regex: str, words: str, *, required: bool = True) -> Field:
    compiled = re.compile(regex)

    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and compiled.fullmatch(value) else f"must be {words}"

    return Field(check, {"type": "string", "pattern": f"^{regex}$"}, required)


def _choice(*options: str, required: bool = True) -> Field:
    def check(value: Any) -> str | None:
        ok = isinstance(value, str) and value in options
        return None if ok else f"must be one of: {', '.join(options)}"

    return Field(check, {"type": "string", "enum": list(options)}, required)


def _boolean(*, required: bool = False) -> Field:
    def check(value: Any) -> str | None:
        return None if isinstance(value, bool) else "must be true or false"

    return Field(check, {"type": "boolean"}, required)


def _integer(low: int, high: int, *, required: bool = False) -> Field:
    def check(value: Any) -> str | None:
        ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if ok else f"must be a whole number from {low} to {high}"

    return Field(check, {"type": "integer", "minimum": low, "maximum": high}, required)


def _cost() -> Field:
    def check(value: Any) -> str | None:
        return None if cost_of(value) is not None else "must be 0 to 1,000,000 US dollars"

    schema = {
        "oneOf": [
            {"type": "string", "pattern": r"^[0-9]{1,7}(\.[0-9]{1,12})?$"},
            {"type": "number", "minimum": 0, "maximum": 1_000_000},
        ]
    }
    return Field(check, schema, required=False)


def cost_of(value: Any) -> Decimal | None:
    """US dollars as a Decimal in 0..1,000,000 from a decimal string or number, else None.

    Twelve decimals at most: sub-cent costs add up exactly and none is read as an exponent bomb.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    text = str(value)
    if len(text) > _LONGEST_NUMBER or (
        isinstance(value, str) and not re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,12})?", text)
    ):
        return None
    try:
        cost = Decimal(text)
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and 0 <= cost <= MAX_COST_USD else None


def _names(*, required: bool = True) -> Field:
    def check(value: Any) -> str | None:
        if not isinstance(value, list) or len(value) > MAX_NAMES:
            return f"must be a list of at most {MAX_NAMES} names"
        ok = all(isinstance(item, str) and 0 < len(item) <= MAX_NAME for item in value)
        return None if ok else f"each must be text of 1 to {MAX_NAME} characters"

    return Field(check, {"type": "array", "items": {"type": "string"}, "maxItems": MAX_NAMES}, required)


def _object(*, required: bool = True) -> Field:
    def check(value: Any) -> str | None:
        return None if isinstance(value, dict) else "must be an object"

    return Field(check, {"type": "object"}, required)


def _shape(fields: Mapping[str, Field], *, required: bool = True) -> Field:
    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return "must be an object"
        wrong = problems(fields, value)
        return "; ".join(f"{name}: {message}" for name, (message, *_) in wrong.items()) or None

    return Field(check, schema_of(fields), required)


def problems(fields: Mapping[str, Field], value: Json) -> dict[str, list[str]]:
    """Every field that is missing or wrong, with what to do; a null optional field counts as left out."""
    wrong: dict[str, list[str]] = {}
    for name, field in fields.items():
        if value.get(name) is None:
            if field.required:
                wrong[name] = ["is required"]
        elif message := field.check(value[name]):
            wrong[name] = [message]
    return wrong


def schema_of(fields: Mapping[str, Field]) -> Json:
    """The JSON Schema of a shape."""
    return {
        "type": "object",
        "properties": {name: field.schema for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.required],
        "additionalProperties": True,
    }


_ARTIFACT = r"art_[0-9A-HJKMNP-TV-Z]{26}"
_SLUG = r"[a-z0-9][a-z0-9_.:-]{0,99}"


def _artifact(*, required: bool = True) -> Field:
    return _pattern(_ARTIFACT, "an artifact id (art_…)", required=required)


_FAILURE = {
    "category": _choice(*FailureCategory),
    "reason": _pattern(_SLUG, "a slug such as clone_failed"),
    "summary": _text(2_000),
    "retryable": _boolean(),
    "evidence_artifact_id": _artifact(required=False),
}
_COMMIT = _pattern(r"(?:[0-9a-f]{40}|[0-9a-f]{64})", "a commit of 40 or 64 hex digits")
_OPERATION = _pattern(r"[A-Za-z0-9._:/-]{1,200}", "1 to 200 of A-Z a-z 0-9 . _ : / -")
_CLEANUP = {
    "cleanup": _choice("done", "partial", "unknown"),
    "process_group_gone": _boolean(),
    "artifacts_saved": _boolean(),
    "note": _text(2_000, required=False),
}
_REPORT = {"verification_report_id": _artifact()}
_JUDGED = {"judge_report_id": _artifact()}
_REASON = _text(MAX_REASON, required=False)


def reason_within(words: str, reason: str = "") -> str:
    """``words: reason`` as the reason of an event, cut to what one may carry: a reason that somebody gave for
    many runs stands in each behind words of ours."""
    text = f"{words}: {reason}" if reason else words
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"


SHAPES: Final[dict[Ev, dict[str, Field]]] = {
    Ev.WORKER_STARTED: {
        "worker_version": _text(100),
        "isolation": _choice("none", "process", "namespace", "container", "vm", required=False),
    },
    Ev.SANDBOX_READY: {"sandbox_id": _text(200), "base_commit": _COMMIT},
    Ev.CONTEXT_READY: {
        "summary": _text(required=False),
        "context_artifact_id": _artifact(required=False),
    },
    Ev.PLAN_CREATED: {"plan_artifact_id": _artifact()},
    Ev.PATCH_CREATED: {"patch_artifact_id": _artifact(), "summary": _text(required=False, blank=True)},
    Ev.REPORT_CREATED: {"report_artifact_id": _artifact(), "summary": _text(required=False, blank=True)},
    Ev.VERIFICATION_STARTED: {"commands": _names()},
    Ev.VERIFICATION_PASSED: _REPORT,
    Ev.VERIFICATION_FAILED_RETRYABLE: _REPORT,
    Ev.JUDGE_PASSED: _JUDGED,
    Ev.JUDGE_REQUIRES_FIX: _JUDGED,
    Ev.PR_CREATED: {
        "provider": _text(50),
        "url": _text(2_000),
        "branch": _text(250),
        "commit_sha": _COMMIT,
        "tree_sha": _COMMIT,
        "number": _integer(1, 2**31 - 1),
        "body": _text(200_000),
    },
    Ev.PR_CREATION_FAILED: {"failure": _shape(_FAILURE)},
    Ev.NON_RETRYABLE_FAILURE: {"failure": _shape(_FAILURE)},
    Ev.RUN_CANCELLED: _CLEANUP,
    Ev.CLEANUP_REPORTED: _CLEANUP,
    Ev.ATTEMPT_FINISHED: {"outcome": _choice("failed", "aborted"), "failure": _shape(_FAILURE)},
    Ev.MODEL_DECISION: {
        "decision": _choice("tool", "final"),
        "summary": _text(required=False, blank=True),
        "provider": _text(100, required=False),
        "model": _text(200, required=False),
        "input_tokens": _integer(0, 10**12),
        "output_tokens": _integer(0, 10**12),
        "cost_usd": _cost(),
        "content_artifact_id": _artifact(required=False),
    },
    Ev.TOOL_REQUESTED: {
        "operation_id": _OPERATION,
        "tool": _text(200),
        "arguments": _object(),
        "label": _text(500),
        "effect": _choice("none", "workspace", "outside", required=False),
        "requires_approval": _boolean(),
    },
    Ev.TOOL_COMPLETED: {
        "operation_id": _OPERATION,
        "outcome": _choice("succeeded", "failed", "timed_out", "skipped"),
        "exit_code": _integer(-(2**31), 2**31 - 1),
        "summary": _text(required=False, blank=True),
        "output_artifact_id": _artifact(required=False),
        "cost_usd": _cost(),
        "duration_ms": _integer(0, 10**12),
    },
    Ev.CHECKPOINT_SAVED: {"checkpoint_artifact_id": _artifact(), "base_commit": _COMMIT},
    Ev.RUN_INTERRUPTED: {"checkpoint_artifact_id": _artifact(required=False)},
    Ev.QUESTION_ASKED: {"question": _text(), "choices": _names(required=False)},
    Ev.LEASE_RELEASED: {"reason": _REASON},
    Ev.CANCEL_REQUESTED: {"reason": _text(MAX_REASON)},
    Ev.PAUSE_REQUESTED: {"reason": _REASON},
    Ev.WIND_DOWN_REQUESTED: {"reason": _REASON},
    Ev.RUN_RESUMED: {"reason": _REASON},
    Ev.NOTE_ADDED: {"text": _text()},
}


def check_payload(event: Ev, payload: Json) -> None:
    """Raise ``Invalid`` naming every wrong field of what a caller sent."""
    if wrong := problems(SHAPES.get(event, {}), payload):
        raise Invalid({f"payload.{name}": messages for name, messages in wrong.items()})
