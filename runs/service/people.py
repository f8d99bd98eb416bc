"""What people want of runs: directives and remarks. Parsed and authorised by the caller."""

from __future__ import annotations

from django.db import transaction

from runs import store
from runs.domain.commands import Caller, Command
from runs.domain.errors import NotAllowedNow
from runs.domain.facts import Json
from runs.domain.state import RunState
from runs.domain.vocabulary import DIRECTIVE_RANK, Directive, Ev, RunStatus
from runs.models import Run
from runs.service.runs import Outcome, apply_event

_DIRECTIVES = {
    Ev.CANCEL_REQUESTED: Directive.CANCEL,
    Ev.WIND_DOWN_REQUESTED: Directive.WIND_DOWN,
    Ev.PAUSE_REQUESTED: Directive.PAUSE,
    Ev.RUN_RESUMED: Directive.CONTINUE,
}


@transaction.atomic
def run_direct(*, run_id: str, event: Ev, reason: str, by: Caller, key: str = "") -> Outcome:
    """Cancel, pause, wind down or resume a run. The same directive again changes nothing and is no event.

    Raises ``NotAllowedNow`` where it is too late, with what to do instead.
    """
    command = Command(event, {"reason": reason} if reason else {}, by, key)
    run = store.lock_run(run_id)
    if key and store.find_keys(run_id, [key]):
        return apply_event(run_id, command)
    state = RunState.from_json(run.state)
    wanted = _DIRECTIVES[event]
    if state.directive == wanted and not state.is_terminal:
        return Outcome(run, state, None, lease=store.active_lease(run_id))
    _check_possible(run, state, wanted)
    return apply_event(run_id, command)


def _check_possible(run: Run, state: RunState, wanted: Directive) -> None:
    if state.is_terminal:
        raise NotAllowedNow(
            f"The run has ended ({state.status.lower()}); make a new run instead.", status=state.status
        )
    if state.status == RunStatus.PR_CREATED:
        raise NotAllowedNow(
            "The pull request is open; close it at the provider instead.", status=state.status
        )
    asked = Directive(state.directive)
    if wanted is Directive.CONTINUE:
        if asked is not Directive.PAUSE:
            raise NotAllowedNow("The run is not paused.", status=state.status, directive=asked)
    elif DIRECTIVE_RANK[asked] > DIRECTIVE_RANK[wanted]:
        raise NotAllowedNow(f"{asked.label} was asked before and goes first.", directive=asked)


def run_note(*, run_id: str, text: str, by: Caller, key: str = "") -> Outcome:
    """A remark on a run, in any status."""
    payload: Json = {"text": text}
    return apply_event(run_id, Command(Ev.NOTE_ADDED, payload, by, key))
