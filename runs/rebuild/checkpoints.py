"""Checkpoints of the fold: a check of a long run reads only what was added since the last one.

A checkpoint is believed when its key fits, the event that it ends with is still the same, and today's code
would fold as the code that made it did. Anything else is folded from the first event; one whose key does not
fit was changed by somebody, and is a difference.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from typing import Final

from agentplatform.clock import database_now
from runs import projections, store
from runs.domain import facts, fold, fold_leases, fold_work, state, versions
from runs.domain.facts import Json, canonical
from runs.domain.state import Changes, RunState
from runs.models import FoldCheckpoint, Run, RunEvent
from runs.rebuild.folding import Folded

#: Events that are worth a checkpoint.
EVERY: Final = 500
_FOLDING: Final = (facts, fold, fold_leases, fold_work, state, versions)


def load(run: Run) -> tuple[Folded | None, str]:
    """Where to go on from, or None; and what is wrong with the checkpoint that is there."""
    kept = FoldCheckpoint.objects.filter(run=run).first()
    if kept is None:
        return None, ""
    if kept.mac != _mac(kept):
        return None, "its key does not fit: it was made without the platform's key"
    ends_so = RunEvent.objects.filter(run=run, sequence=kept.sequence, hash=kept.event_hash).exists()
    if not ends_so:
        return None, f"event {kept.sequence} is not the one that it ended with"
    if kept.folded_by != folded_by():
        return None, ""
    return _folded(kept), ""


def save(run: Run, folded: Folded) -> None:
    """Keep this fold as the run's checkpoint, in place of the one before. Call it under the run's lock."""
    kept = FoldCheckpoint(
        run=run,
        sequence=folded.state.sequence,
        event_hash=folded.link,
        folded_by=folded_by(),
        content=canonical(_content(folded)).decode(),
        saved_at=database_now(),
    )
    kept.mac = _mac(kept)
    kept.save()


def _content(folded: Folded) -> Json:
    changes = folded.changes
    attempts = {str(number): columns for number, columns in changes.attempts.items()}
    return {
        "state": folded.state.to_json(),
        "attempts": attempts,
        "steps": changes.steps,
        "others": folded.others,
    }


def _folded(kept: FoldCheckpoint) -> Folded:
    content = json.loads(kept.content)
    attempts = {int(number): columns for number, columns in content["attempts"].items()}
    return Folded(
        RunState.from_json(content["state"]),
        Changes(attempts, content["steps"]),
        content["others"],
        kept.event_hash,
    )


def _mac(kept: FoldCheckpoint) -> str:
    content = hashlib.sha256(kept.content.encode()).hexdigest()
    return store.mac(f"fold of {kept.run_id}", kept.sequence, f"{kept.event_hash}:{kept.folded_by}:{content}")


@functools.cache
def folded_by() -> str:
    """Digest of the code that folds: whatever changes in it, old checkpoints are not gone on from."""
    modules = [*_FOLDING, *(inspect.getmodule(rows.evolve) for rows in projections.followers())]
    sources = "".join(inspect.getsource(module) for module in modules if module is not None)
    return hashlib.sha256(sources.encode()).hexdigest()
