"""Leaving a run before its work is done: cancelled, paused, broken off, failed.

What was made is stored before the sandbox is removed; the sandbox is removed before its removal is
reported.
"""

from __future__ import annotations

import logging

from worker.client.errors import Refused
from worker.client.protocol import PAUSE, Artifact, Json
from worker.phases.failures import RunFailure
from worker.phases.handing_in import PATCH_TYPE
from worker.sandbox.git import GitError
from worker.sandbox.process import end_marked
from worker.session import RunSession

logger = logging.getLogger("worker")

WITH_CHECKPOINTS = frozenset(
    {"CONTEXT_BUILDING", "PLANNING", "EXECUTING", "PATCH_READY", "VERIFYING", "JUDGING"}
)


def stop(session: RunSession, directive: str) -> None:
    """Obey a pause, a cancel, or a wind-down that found nothing to hand in."""
    if directive == PAUSE:
        interrupt(session)
    else:
        cancel(session)


def cancel(session: RunSession) -> None:
    gone = end_marked(session.sandbox.id) if session.sandbox else True
    saved, _ = _save_work(session)
    clean = session.close()
    session.post(
        "run_cancelled",
        cleanup="done" if clean and gone else "partial",
        process_group_gone=gone,
        artifacts_saved=saved,
    )


def interrupt(session: RunSession) -> None:
    _, checkpoint = _save_work(session)
    session.close()
    payload: Json = {"checkpoint_artifact_id": checkpoint.id} if checkpoint else {}
    session.post("run_interrupted", **payload)


def hand_back(session: RunSession) -> None:
    """Release the lease, for this worker is shutting down."""
    _save_work(session)
    session.close()
    session.release(reason="the worker is shutting down")


def fail(session: RunSession, failure: RunFailure) -> None:
    session.post("non_retryable_failure", failure=failure.document())


def _save_work(session: RunSession) -> tuple[bool, Artifact | None]:
    """Keep the partial patch. Whether that was possible, for the run leaves this worker all the same: on a
    full disk nothing can be written, not even to look at what there is."""
    try:
        return True, _checkpoint(session)
    except (Refused, GitError, OSError) as error:
        logger.warning("run %s: the partial work could not be stored: %s", session.run_id, error)
        return False, None


def _checkpoint(session: RunSession) -> Artifact | None:
    """Store the work so far; None when there is none. Raises GitError, OSError and Refused."""
    if session.checkout is None or session.status not in WITH_CHECKPOINTS:
        return None
    patch = session.checkout.diff()
    if not patch:
        return None
    artifact = session.upload("checkpoint", patch, content_type=PATCH_TYPE)
    session.post(
        "checkpoint_saved",
        checkpoint_artifact_id=artifact.id,
        base_commit=session.checkout.sandbox.base_commit,
    )
    return artifact
