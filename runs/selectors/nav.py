"""What the shell of every page shows of a person."""

from __future__ import annotations

from runs.auth import Principal
from runs.domain.vocabulary import PersonRole


def roles_in_words(*, principal: Principal) -> str:
    """The person's roles, in the order of the vocabulary. No query."""
    granted = {role for role, _ in principal.grants}
    return ", ".join(role.label.lower() for role in PersonRole if role in granted)
