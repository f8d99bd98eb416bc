"""Turns that processes take by advisory locks of the database. All of them stand here, each with its number:
two of one number would wait for each other without a word."""

from __future__ import annotations

from enum import IntEnum, unique

from agentplatform.rows import ask


@unique
class Turn(IntEnum):
    """What one process does at a time."""

    HOLDS = 7_201_001  #: setting a hold; claims share it
    BEAT = 7_201_002  #: acting as beat, for as long as its session lasts
    IMPORTS = 7_201_003  #: bringing in repositories
    PACE = 7_201_004  #: beginning a pull request while a campaign is paced


def take_turn(turn: Turn) -> None:
    """Wait until nobody else has it; held to the end of the transaction. Locked before every row."""
    ask("SELECT pg_advisory_xact_lock(%s::bigint)", [int(turn)])


def share_turn(turn: Turn) -> None:
    """Wait until nobody has it alone; others may share it meanwhile."""
    ask("SELECT pg_advisory_xact_lock_shared(%s::bigint)", [int(turn)])
