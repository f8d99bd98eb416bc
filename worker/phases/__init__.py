"""What a worker does in each status. A run that another worker left is taken up where it stands."""

from collections.abc import Callable

from worker.phases.executing import execute
from worker.phases.judging import judge
from worker.phases.planning import plan
from worker.phases.preparing import build_context, prepare, start
from worker.phases.verifying import begin_verification, verify
from worker.session import RunSession

PHASES: dict[str, Callable[[RunSession], None]] = {
    "LEASED": start,
    "PREPARING": prepare,
    "CONTEXT_BUILDING": build_context,
    "PLANNING": plan,
    "EXECUTING": execute,
    "PATCH_READY": begin_verification,
    "VERIFYING": verify,
    "JUDGING": judge,
}
EDITING = frozenset({"LEASED", "PREPARING", "CONTEXT_BUILDING", "PLANNING", "EXECUTING"})

__all__ = ["EDITING", "PHASES"]
