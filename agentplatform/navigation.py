"""What the shell of every page reads from the context (templates/base.html)."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest

from approvals.badge import reviews_waiting
from approvals.notices.selectors import unread_count
from approvals.selectors import COUNTED
from runs.models import Person
from runs.selectors.holds import hold_banners
from runs.selectors.nav import roles_in_words
from runs.web.session import principal_of

_DEMO: Final = "Demonstration mode: sample people and work; whoever uses this machine signs in by one click."


def nav(request: HttpRequest) -> dict[str, Any]:
    """``nav = {reviews, unread, roles, holds, demo}`` for somebody signed in; nothing for strangers, nor for
    admin and parts of pages, which have no such shell."""
    if not isinstance(getattr(request, "user", None), Person) or request.headers.get("HX-Request"):
        return {}
    if request.resolver_match and request.resolver_match.app_name == "admin":
        return {}
    principal = principal_of(request)
    counted: int | None = getattr(request, COUNTED, None)
    return {
        "nav": {
            "reviews": reviews_waiting(principal) if counted is None else counted,
            "unread": unread_count(principal),
            "roles": roles_in_words(principal=principal),
            "holds": hold_banners(principal=principal),
            "demo": _DEMO if settings.DEMO else "",
        }
    }
