"""What somebody sees of their own account: where they are signed in, and their tokens."""

from __future__ import annotations

from typing import Final

from agentplatform.clock import database_now
from runs.domain.facts import Json
from runs.models import Person
from runs.selectors.words import when

#: The newest of each; older ones have ended long ago.
MOST: Final = 50


def account_of(*, person: Person, here: str) -> Json:
    """``{sessions: [{id, here, begun, address, browser}],
    tokens: [{id, name, roles, made, ends, used, in_force, revoked}]}``.

    ``here`` is the digest of the session that asks. Three queries.
    """
    now = database_now()
    sessions = person.sessions.filter(expire_date__gt=now).order_by("-begun_at")[:MOST]
    tokens = person.tokens.order_by("-created_at", "-pk")[:MOST]
    return {
        "sessions": [
            {
                "id": one.pk,
                "here": one.pk == here,
                "begun": when(one.begun_at),
                "address": one.address,
                "browser": one.browser,
            }
            for one in sessions
        ],
        "tokens": [
            {
                "id": token.pk,
                "name": token.name,
                "roles": ", ".join(token.roles) or "all that you may",
                "made": when(token.created_at),
                "ends": when(token.expires_at),
                "used": when(token.last_used_at),
                "in_force": token.is_in_force(now),
                "revoked": token.revoked_at is not None,
            }
            for token in tokens
        ],
    }
