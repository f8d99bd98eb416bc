"""A run taken in hand: locked, and all that a decision needs of it read in one round trip."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

from agentplatform.clock import present
from agentplatform.rows import columns_of, instance, together
from runs.domain.errors import NotFound
from runs.domain.facts import Artifact, Event, Json
from runs.domain.state import Changes
from runs.models import Lease, Run
from runs.models.chains import LEVELS, POLICY_CHAIN
from runs.store.locks import lock_run_text, locked_run
from runs.store.reads import Surroundings, artifacts_of, find_keys, levels_of

#: What a decision looks at of a stored step.
STEP_NAMES: Final = ("operation_id", "state", "tool", "label", "exit_code", "summary", "output_artifact_id")
ARTIFACT_NAMES: Final = ("id", "kind", "sha256", "size", "facts", "document")


class RunArtifacts(Mapping[str, Artifact]):
    """A run's artifacts by id; one that was not read along is read when it is looked at."""

    def __init__(self, run_id: str, known: dict[str, Artifact]) -> None:
        self._run_id, self._known = run_id, known

    def __getitem__(self, artifact_id: str) -> Artifact:
        if artifact_id not in self._known:
            self._known.update(artifacts_of(self._run_id, [artifact_id]))
        return self._known[artifact_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(slots=True)
class Taken:
    """A locked run with its lease, the database's clock, and the evidence that was asked for."""

    run: Run
    lease: Lease | None
    now: datetime
    around: Surroundings
    seen: dict[str, Event]  #: idempotency key → the event stored under it
    artifacts: RunArtifacts
    is_watched: bool  #: somebody waits for the next event
    steps: dict[str, Json] = field(default_factory=dict)  #: operation id → what STEP_NAMES names

    def follow(self, changes: Changes) -> None:
        """Keep the steps as they will be once ``changes`` are written."""
        for operation_id, columns in changes.steps.items():
            step = self.steps.setdefault(operation_id, dict.fromkeys(STEP_NAMES))
            step.update({name: columns[name] for name in STEP_NAMES if name in columns})
            step["operation_id"] = operation_id


def take_run(
    run_id: str,
    *,
    keys: Collection[str] = (),
    artifacts: Collection[str] = (),
    operations: Collection[str] = (),
) -> Taken:
    """Lock the run; then read clock, lease, policy, and what is stored under these keys and ids.

    Two statements, one round trip. The second sees what a takeover did while the first waited for the lock.
    Raises ``NotFound``.
    """
    words = {
        "run": run_id,
        "keys": list(keys),
        "artifacts": list(artifacts),
        "operations": list(operations),
    }
    with together() as cursor:
        cursor.execute(lock_run_text(), [run_id])
        locked = cursor.fetchone()
        cursor.execute(_read_text(), words)
        read = cursor.fetchone()
    if locked is None or read is None:
        raise NotFound
    run = locked_run(locked)
    now, levels, seen, artifact_rows, step_rows, is_watched, *lease = read
    return Taken(
        run=run,
        lease=instance(Lease, lease) if lease[0] else None,
        now=present(now),
        around=Surroundings(run.task.contract, levels_of(levels)),
        seen=find_keys(run_id, seen) if seen else {},
        artifacts=RunArtifacts(run_id, {row["id"]: Artifact(**row) for row in _read(artifact_rows)}),
        is_watched=is_watched,
        steps={row["operation_id"]: row for row in _read(step_rows)},
    )


def _read(text: str | None) -> list[Json]:
    rows: list[Json] = json.loads(text) if text else []
    return rows


@lru_cache(maxsize=1)
def _read_text() -> str:
    chain = POLICY_CHAIN.format(repositories="= (SELECT repository_id FROM runs WHERE id = %(run)s)")
    return f"""
        WITH RECURSIVE {chain}
        SELECT clock_timestamp(),
            {LEVELS},
            ARRAY(SELECT idempotency_key FROM run_events
                WHERE run_id = %(run)s AND idempotency_key = ANY(%(keys)s::text[])),
            (SELECT jsonb_agg({_object("a", ARTIFACT_NAMES)}) FROM artifacts a
                WHERE a.run_id = %(run)s AND a.id = ANY(%(artifacts)s::text[])),
            (SELECT jsonb_agg({_object("s", STEP_NAMES)}) FROM steps s
                WHERE s.run_id = %(run)s AND s.operation_id = ANY(%(operations)s::text[])),
            EXISTS (SELECT FROM run_watches w WHERE w.run_id = %(run)s AND w.until > clock_timestamp()),
            {columns_of(Lease, "l")}
        FROM (SELECT) nothing LEFT JOIN run_leases l ON l.run_id = %(run)s AND l.ended_at IS NULL
    """  # noqa: S608


def _object(alias: str, names: tuple[str, ...]) -> str:
    pairs = ", ".join(f"'{name}', {alias}.{name}" for name in names)
    return f"jsonb_build_object({pairs})"
