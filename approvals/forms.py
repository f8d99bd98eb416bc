"""What the pages post, read strictly. Raises ``Invalid``."""

from __future__ import annotations

import re
from typing import Any, Final

from django.http import QueryDict

from approvals.models import ApprovalRequest
from runs.domain import strict_json
from runs.domain.errors import Invalid, Malformed
from runs.domain.facts import Json
from runs.domain.vocabulary import DecisionWord, Gate

_BULK: Final = re.compile(r"(apr_[0-9A-Z]{26}):([0-9]{1,9}):([0-9a-f]{64})")
MOST_AT_ONCE: Final = 50


def read_decision(posted: QueryDict, request: ApprovalRequest) -> dict[str, Any]:
    """The arguments of ``approval_decide`` from the sticky bar and the fields that belong to it."""
    found: dict[str, Any] = {
        "decision": posted.get("decision", ""),
        "version": _version(posted),
        "subject_sha256": posted.get("subject_sha256", ""),
        "comment": posted.get("comment", ""),
        "override": posted.get("override") == "on",
    }
    if found["decision"] == DecisionWord.APPROVE and request.gate == Gate.TOOL_CALL:
        found |= _edited(posted.get("arguments", ""), request.subject.get("arguments"))
    if found["decision"] == DecisionWord.APPROVE and request.gate == Gate.BUDGET:
        found["budget"] = {"max_cost_usd": posted.get("max_cost_usd", "").strip()}
    return found


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
