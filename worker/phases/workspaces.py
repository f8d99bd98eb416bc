"""The attempt's checkout: as it was left, clean for a new attempt, or restored from a checkpoint."""

from __future__ import annotations

from worker.phases.preparing import agent_checkout
from worker.sandbox.folder import Checkout
from worker.sandbox.git import GitError
from worker.session import RunSession


class WorkspaceLost(Exception):  # noqa: N818  named by what happened
    """Work of this attempt died with another worker's sandbox and cannot be restored."""


def count_round(session: RunSession) -> None:
    """A second EXECUTING of the same attempt is a repair."""
    same = session.handed_in_attempt == session.resume.attempt
    session.rounds = session.rounds + 1 if same else 0
    session.handed_in_attempt = None


def open_workspace(session: RunSession) -> Checkout:
    """The attempt's checkout: as it was left, or clean for a new attempt, or restored."""
    attempt = session.resume.attempt
    if session.checkout is not None and session.checkout_attempt in (None, attempt):
        session.checkout_attempt = attempt
        return session.checkout
    first_here = session.checkout is None
    checkout = agent_checkout(session, fresh=True)
    if first_here:
        _restore(session, checkout)
    session.checkout_attempt = attempt
    return checkout


def _restore(session: RunSession, checkout: Checkout) -> None:
    resume = session.resume
    if resume.contract.wants_analysis:
        # What was saved is a report; the agent reads the same files again.
        return
    saved = resume.checkpoint or (resume.patch if session.repair_round else None)
    if saved is None:
        if resume.lost:
            raise WorkspaceLost("the workspace was lost, and there was no checkpoint of it")
        return
    try:
        if saved.size:
            checkout.apply(session.leased.download(saved.id))
    except GitError as error:
        raise WorkspaceLost(f"the checkpoint cannot be restored: {error}") from error
