"""``errors.md``: every way to be refused."""

from __future__ import annotations

from agentplatform.documents.markdown import code, sentence, table
from agentplatform.documents.markdown import page as whole
from agentplatform.problem import MEDIA_TYPE, STATUS, title_of
from runs.domain.errors import all_refusals

_INTRO = (
    f"A refusal is a `{MEDIA_TYPE}` document (RFC 9457): `type`, `title`, `status`, `detail`, `code`, and "
    "what the caller needs to act. Act on `code`; `detail` is for people. The run's or task's own status, "
    "where it is told, is `current_status`. A refused call leaves no trace in the run, and its "
    "idempotency key is free again."
)


def page() -> str:
    """The file."""
    said = {refusal.code: sentence(refusal.__doc__) for refusal in all_refusals()}
    rows = [(str(status), code(name), title_of(name), said[name]) for name, status in STATUS.items()]
    return whole("Errors", _INTRO, table(("status", "code", "title", "what it says"), rows))
