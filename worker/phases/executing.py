"""EXECUTING: the agent works in the checkout; what it leaves is handed in."""

from __future__ import annotations

from worker.client.errors import DirectivePending
from worker.client.protocol import WIND_DOWN
from worker.phases.calling import agent_has_finished, call_agent
from worker.phases.failures import RunFailure
from worker.phases.handing_in import hand_in_patch, hand_in_text, hand_in_what_there_is
from worker.phases.preparing import asks_model
from worker.phases.workspaces import WorkspaceLost, count_round, open_workspace
from worker.sandbox.folder import Checkout
from worker.session import RunSession


def execute(session: RunSession) -> None:
    session.refresh()
    count_round(session)
    try:
        checkout = open_workspace(session)
    except WorkspaceLost as error:
        failure = RunFailure("INFRASTRUCTURE", "workspace_lost", str(error), retryable=True)
        session.post("attempt_finished", outcome="aborted", failure=failure.document())
        return
    session.boundary()
    if session.winding_down:
        hand_in_what_there_is(session, checkout)
    elif asks_model(session):
        _loop(session, checkout)
    elif agent_has_finished(session):
        hand_in_patch(session, checkout, b"")
    else:
        call_agent(session, checkout)


def _loop(session: RunSession, checkout: Checkout) -> None:
    """The worker's own loop. Its libraries take a second to load, and only this kind needs them."""
    from worker.loop.bounds import OutOfBounds, failure_of
    from worker.loop.running import AttemptEnded, WindingDown
    from worker.models.asking import Interrupted, ModelFailed
    from worker.phases.looping import work_with_model

    try:
        last_word = work_with_model(session, checkout)
    except AttemptEnded:
        return
    except WindingDown:
        hand_in_what_there_is(session, checkout)
    except DirectivePending as pending:
        if pending.directive != WIND_DOWN:
            raise
        hand_in_what_there_is(session, checkout)
    except OutOfBounds as bound:
        if bound.ends_the_run:
            session.post("non_retryable_failure", failure=failure_of(bound))
        else:
            session.post("attempt_finished", outcome="failed", failure=failure_of(bound))
    except Interrupted:
        session.boundary()
        raise
    except ModelFailed as error:
        raise RunFailure("INFRASTRUCTURE", "model_failed", str(error), retryable=error.retryable) from error
    else:
        hand_in_text(session, checkout, last_word)
