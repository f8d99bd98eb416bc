"""An answer of a model that another worker got and recorded, so that it is not paid for twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_ai.messages import ModelResponse

from worker.loop.conversation import load_response
from worker.session import RunSession


def recorded_response(
    session: RunSession, *, status: str, outdated_by: frozenset[str]
) -> ModelResponse | None:
    """The last answer recorded in this status, unless one of these events made it outdated."""
    content = _last_content(session.leased.events(), status, outdated_by)
    return load_response(session.leased.download(content)) if content else None


def _last_content(events: Iterable[Mapping[str, Any]], status: str, outdated_by: frozenset[str]) -> str:
    content = ""
    for event in events:
        if event["type"] == "model_decision" and event.get("from_status") == status:
            content = str((event.get("payload") or {}).get("content_artifact_id") or "")
        elif event["type"] in outdated_by:
            content = ""
    return content
