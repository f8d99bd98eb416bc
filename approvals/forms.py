"""What the pages post, read strictly. Raises ``Invalid``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.http import QueryDict

from approvals.models import ApprovalRequest
from approvals.remarks import SIDES, Draft, Remark
from runs.domain import strict_json
from runs.domain.errors import Invalid, Malformed
from runs.domain.facts import Json
from runs.domain.vocabulary import DecisionWord, Gate

_BULK: Final = re.compile(r"(apr_[0-9A-Z]{26}):([0-9]{1,9}):([0-9a-f]{64})")
MOST_AT_ONCE: Final = 50
#: Hours for which a request may be put off from the page; the API takes any moment.
SNOOZES: Final = {1: "an hour", 4: "4 hours", 24: "a day", 72: "3 days"}


def read_decision(posted: QueryDict, request: ApprovalRequest) -> dict[str, Any]:
    """The arguments of ``approval_decide`` from the sticky bar and the fields that belong to it."""
    if not (posted.get("version") and posted.get("subject_sha256")):
        raise Malformed("The form does not say what was shown; read this page, and decide on it.")
    found: dict[str, Any] = {
        "decision": posted.get("decision", ""),
        "version": _version(posted),
        "subject_sha256": posted.get("subject_sha256", ""),
        "comment": _text(posted.get("comment", "")),
        "remarks": read_remarks(posted),
        "override": posted.get("override") == "on",
    }
    if request.gate == Gate.QUESTION:
        found["comment"] = _answer(posted, request)
    if found["decision"] == DecisionWord.APPROVE and request.gate == Gate.TOOL_CALL:
        found |= _edited(posted.get("arguments", ""), request.subject.get("arguments"))
    if found["decision"] == DecisionWord.APPROVE and request.gate == Gate.BUDGET:
        found["budget"] = {"max_cost_usd": posted.get("max_cost_usd", "").strip()}
    return found


def read_remarks(posted: QueryDict) -> list[Remark]:
    """What was written about single lines; each field stands once for each remark, in order."""
    return [_remark(draft) for draft in typed_remarks(posted)]


def typed_remarks(posted: QueryDict) -> list[Draft]:
    """The same as it was typed, to give back."""
    names = ("remark_path", "remark_side", "remark_line", "remark_text")
    rows = zip(*(posted.getlist(name) for name in names), strict=False)
    return [Draft(path, side, line, _text(text)) for path, side, line, text in rows if text.strip()]


def typed(posted: QueryDict, homeless: Sequence[Draft]) -> str:
    """The comment to give back, with the remarks that have no line any more: no word of anybody is lost."""
    left = [f"{draft.path}:{draft.line} (in what was shown before)\n{draft.text}" for draft in homeless]
    return "\n\n".join(filter(None, [_text(posted.get("comment", "")), *left]))


def _remark(draft: Draft) -> Remark:
    if not draft.number or draft.side not in SIDES:
        raise Invalid({"remarks": [f"say which line of {draft.path} you mean: “{draft.text[:80]}”"]})
    return Remark(draft.path, draft.side, draft.number, draft.text)


def _answer(posted: QueryDict, request: ApprovalRequest) -> str:
    """One of the choices that were offered, with what was written beside it."""
    choice = posted.get("choice", "")
    offered = request.subject.get("choices") or ()
    chosen = choice if choice in offered else ""
    return "\n\n".join(filter(None, (chosen, _text(posted.get("comment", "")))))


def read_waiver(posted: QueryDict) -> dict[str, Any]:
    """The arguments of ``approval_waive``."""
    return {
        "guard": posted.get("guard", ""),
        "reason": posted.get("reason", ""),
        "version": _version(posted),
    }


def read_bulk(posted: QueryDict) -> list[dict[str, Any]]:
    """Each chosen request with the version and digest that the queue showed."""
    chosen = []
    for value in posted.getlist("approval")[:MOST_AT_ONCE]:
        if parts := _BULK.fullmatch(value):
            approval_id, version, digest = parts.groups()
            chosen.append({"approval_id": approval_id, "version": int(version), "subject_sha256": digest})
    return chosen


def _text(value: str) -> str:
    """As it was typed: a browser ends lines as mail does, and would make a text longer than it may be."""
    return value.replace("\r\n", "\n").strip()


def read_snooze(posted: QueryDict) -> timedelta | None:
    """How long, from the choices of the page; None ends it."""
    text = posted.get("hours", "")
    if text not in {"0", *map(str, SNOOZES)}:
        raise Invalid({"hours": ["must be one of the choices"]})
    return timedelta(hours=int(text)) if text != "0" else None


def _version(posted: QueryDict) -> int:
    text = posted.get("version", "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def _edited(text: str, shown: Any) -> Json:
    """A changed text of the arguments makes the approval an edit."""
    if not text.strip():
        return {}
    try:
        arguments = strict_json.parse(text.encode())
    except Malformed as wrong:
        raise Invalid({"arguments": [wrong.detail]}) from None
    if arguments == shown:
        return {}
    return {"decision": DecisionWord.EDIT, "arguments": arguments}
