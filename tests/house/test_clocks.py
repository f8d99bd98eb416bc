"""No process's own clock decides anything: a machine that is an hour off is as good as any other."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.sources import PACKAGES, modules, name, tree

#: Where a wall clock is read, and why it cannot matter when it is wrong.
ALLOWED = {
    "agentplatform/ids.py": "ids grow within a process; no order and no deadline is read from them",
    "runs/credentials/access.py": "a token of a forge app says when it was made, in the forge's terms",
    "runs/mirrors/scratch.py": "against the modification times of the same machine's own files",
    "worker/sandbox/folder.py": "against the modification times of the same machine's own files",
    "worker/conformance/stand_in.py": "the trial's own control plane, in one process with its worker",
}
WALL_CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "time.time", "time.time_ns",
               "timezone.now", "time.localtime", "time.gmtime"}  # fmt: skip


def reads_a_wall_clock(path: Path) -> bool:
    """Whether a call in this file reads this machine's clock."""
    calls = {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}
    return any(call == clock or call.endswith(f".{clock}") for call in calls for clock in WALL_CLOCKS)


def test_what_decides_reads_the_databases_clock_alone():
    assert {name(path) for path in modules(*PACKAGES) if reads_a_wall_clock(path)} == set(ALLOWED)
