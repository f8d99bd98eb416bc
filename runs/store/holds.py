"""Holds: which stand, and whether one stands in a run's way.

A claim and the setting of a hold wait for each other: what is claimed after a hold was committed has seen it.
"""

from __future__ import annotations

from datetime import datetime

from agentplatform.ids import new_id
from agentplatform.rows import together
from agentplatform.turns import Turn, share_turn, take_turn
from runs.domain.facts import CONTROL_PLANE, Event, stamp
from runs.domain.holds import Hold as HoldFacts
from runs.domain.holds import set_facts
from runs.models import Hold
from runs.store.bell import ring
from runs.store.outbox import publish


def lock_holds() -> None:
    """Wait until no claim is under way, and let none begin before the end of the transaction."""
    take_turn(Turn.HOLDS)


def share_holds() -> None:
    """Claim beside other claims, but beside no hold that is being set. Before every row in the lock order."""
    share_turn(Turn.HOLDS)


def insert_hold(hold: Hold) -> HoldFacts:
    """A new hold, told to whoever listens in the same transaction."""
    hold.save(force_insert=True)
    facts = hold.as_fact()
    event = _event(facts, 1, "hold_set", "in_force", hold.created_at)
    with together() as cursor:
        publish(cursor, [(event, "HoldSet", set_facts(facts))])
    return facts


def end_hold(hold: Hold, *, by: str, now: datetime) -> HoldFacts:
    """The hold is lifted."""
    hold.lifted_at, hold.lifted_by = now, by
    hold.save(update_fields=["lifted_at", "lifted_by"])
    ring()
    facts = hold.as_fact()
    told = {**set_facts(facts), "lifted_by": by}
    with together() as cursor:
        publish(cursor, [(_event(facts, 2, "hold_lifted", "lifted", now), "HoldLifted", told)])
    return facts


def _event(hold: HoldFacts, sequence: int, name: str, status: str, at: datetime) -> Event:
    """What the outbox wants to know; a hold has no log, its row is one."""
    return Event(
        run_id=hold.id,
        sequence=sequence,
        type=name,
        from_status="" if sequence == 1 else "in_force",
        to_status=status,
        attempt=0,
        actor=CONTROL_PLANE,
        fence=0,
        payload={},
        facts={},
        recorded_at=stamp(at),
        occurred_at=stamp(at),
        id=new_id("evt"),
    )
