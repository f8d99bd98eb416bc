"""The values that pass between intake, decision, fold and store. All are plain JSON inside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from runs.domain.vocabulary import Role

Json = dict[str, Any]
UTC_OFFSET: Final = "+00:00"


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds and ``Z``; such texts sort as the moments do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix(UTC_OFFSET) + "Z"


def moment(text: str) -> datetime:
    """The moment that ``stamp`` wrote."""
    return datetime.fromisoformat(text)


def canonical(value: Any) -> bytes:
    """JSON with one spelling: what digests and hashes are taken over."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def fingerprint(value: Any) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


@dataclass(frozen=True, slots=True)
class Actor:
    """Who made an event: the role acted in, the account, and its name."""

    type: str
    id: str
    name: str


CONTROL_PLANE: Final = Actor(Role.CONTROL_PLANE, "control_plane", "Control plane")
POLICY: Final = Actor(Role.POLICY, "policy", "Policy")
SCHEDULER: Final = Actor(Role.SCHEDULER, "scheduler", "Scheduler")
OWN_ACTORS: Final = {Role.CONTROL_PLANE: CONTROL_PLANE, Role.POLICY: POLICY, Role.SCHEDULER: SCHEDULER}


@dataclass(frozen=True, slots=True)
class Event:
    """One immutable fact of a run. ``from_status`` is "" for ``run_created``; times are stamps."""

    run_id: str
    sequence: int
    type: str
    from_status: str
    to_status: str
    attempt: int
    actor: Actor
    fence: int
    payload: Json
    facts: Json
    recorded_at: str
    occurred_at: str
    schema_version: int = 1
    id: str = ""
    key: str = ""
    fingerprint: str = ""  #: of type and payload as the caller sent them
    parent: int = 0  #: the sequence of the event that it follows up; 0 for what a caller posted
    previous_hash: str = ""
    hash: str = ""

    def sealed(self) -> Json:
        """What the hash covers: all of the event but the hash itself."""
        return {
            "run_id": self.run_id,
            "sequence": self.sequence,
            "type": self.type,
            "from_status": self.from_status,
            "to_status": self.to_status,
            "attempt": self.attempt,
            "actor": [self.actor.type, self.actor.id, self.actor.name],
            "fence": self.fence,
            "payload": self.payload,
            "facts": self.facts,
            "recorded_at": self.recorded_at,
            "occurred_at": self.occurred_at,
            "schema_version": self.schema_version,
            "id": self.id,
            "key": self.key,
            "fingerprint": self.fingerprint,
            "parent": self.parent,
            "previous_hash": self.previous_hash,
        }


def chain_hash(event: Event) -> str:
    """The event's link in its run's chain: SHA-256 over everything before it and itself."""
    return fingerprint(event.sealed())


def transactions(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Each event of a log together with those that followed it up."""
    together: list[Event] = []
    for event in events:
        if together and event.parent != together[0].sequence:
            yield together
            together = []
        together.append(event)
    if together:
        yield together


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact as a decision sees it. ``facts`` is the control plane's own reading of the bytes."""

    id: str
    kind: str
    sha256: str
    size: int
    facts: Json = field(default_factory=dict)
    document: Json | None = None

    def brief(self) -> Json:
        """The form in answers and projections."""
        return {"id": self.id, "sha256": self.sha256, "size": self.size}
