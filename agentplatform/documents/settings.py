"""``settings.md``: every environment variable that is read."""

from __future__ import annotations

from django.conf import settings

from agentplatform.documents.markdown import code, table
from agentplatform.documents.markdown import page as whole
from agentplatform.environment import Variable
from agentplatform.variables import ENVIRONMENT

_INTRO = (
    "Settings come from environment variables; an empty one counts as not set. What is wrong is refused "
    "at the start, by name. In production (`AGENTPLATFORM_ENV=production`) those marked so must be set."
)


def page() -> str:
    """The file."""
    rows = [
        (code(v.name), v.meaning, _default(v), "yes" if v.required_in_production else "") for v in ENVIRONMENT
    ]
    return whole("Settings", _INTRO, table(("variable", "meaning", "default", "production"), rows))


def _default(variable: Variable) -> str:
    """As it is in every checkout, wherever that lies."""
    return code(variable.default.replace(f"{settings.BASE_DIR}/", "")) if variable.default else ""
