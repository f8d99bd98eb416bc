"""Schema versions of stored events (lifecycle contract, 4.3 rule 6).

An event is never rewritten: an older one is brought to today's shape whenever it is read. Each step is
frozen when it is written and calls none of today's parsers: a later change leaves what an old log adds up to.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from runs.domain.facts import Json
from runs.domain.vocabulary import Ev

Upcaster = Callable[[Json, Json], tuple[Json, Json]]

#: The version in which an event type is written today; 1 where it is not named.
CURRENT_VERSION: Final[dict[str, int]] = {Ev.MODEL_DECISION: 2, Ev.TOOL_COMPLETED: 2}


def version_of(event: str) -> int:
    """The schema version in which ``event`` is written now."""
    return CURRENT_VERSION.get(event, 1)


def is_of_the_future(event: str, version: int) -> bool:
    """Whether a newer release than this one wrote it: what it says is not ours to read."""
    return version > version_of(event)


def upcast(event: str, version: int, payload: Json, facts: Json) -> tuple[Json, Json]:
    """Payload and facts of a stored event in today's shape; what was given stays as it is."""
    while (step := UPCASTERS.get((event, version))) is not None:
        payload, facts = step(payload, facts)
        version += 1
    return payload, facts


def _cost_into_facts(payload: Json, facts: Json) -> tuple[Json, Json]:
    """Version 1 left it to each reader to make an amount of what the caller had sent, text or number."""
    sent = payload.get("cost_usd")
    return payload, facts if sent is None else {**facts, "cost_usd": f"{Decimal(str(sent)):f}"}


#: (event type, version) → payload and facts of the next version.
UPCASTERS: Final[dict[tuple[str, int], Upcaster]] = {
    (Ev.MODEL_DECISION, 1): _cost_into_facts,
    (Ev.TOOL_COMPLETED, 1): _cost_into_facts,
}
