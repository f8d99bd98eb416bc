"""How well this machine can keep commands apart from itself, found out by trying.

`process` works everywhere. `namespace` needs user namespaces, which some machines and containers
forbid; nothing has to be installed for it. It adds: no network in the phases that need none, a
read-only file system but for the command's own checkout and home, and nothing to see of the worker's
own files, of other runs, and of what usually holds credentials in a home folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.sandbox.process import Command, Limits, Walls, run_command

PROCESS, NAMESPACE = "process", "namespace"
CHOICES = ("auto", PROCESS, NAMESPACE)
PROBE_SECONDS = 20.0
# Where a user's programs keep what opens doors; and the sockets by which one becomes root.
_SECRETS_AT_HOME = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".pypirc", ".npmrc",
    ".config/gh", ".config/gcloud", ".config/git/credentials", ".claude", ".codex", ".bash_history",
)  # fmt: skip
_SOCKETS = ("/run/docker.sock", "/run/podman", "/run/containerd", "/run/crio", "/run/user")
_TMP = Path("/tmp")  # noqa: S108 - replaced by a folder of the sandbox


class IsolationUnavailable(Exception):  # noqa: N818  named by what happened
    """The machine cannot isolate as it was told to."""


@dataclass(frozen=True)
class Isolation:
    """A level, and with walls what is private to the worker and lies hidden behind them."""

    level: str = PROCESS
    private: Sequence[Path] = ()
    private_tmp: bool = False

    def walls(self, keep: Sequence[Path], tmp: Path, *, network: bool) -> Walls | None:
        """Around a command that may write in `keep` alone; None where the level has none."""
        if self.level != NAMESPACE:
            return None
        return Walls(
            keep=keep, hide=_hidden(self.private), tmp=tmp if self.private_tmp else None, network=network
        )


def find_isolation(wanted: str, *, private: Iterable[Path] = ()) -> Isolation:
    """The best there is, or exactly what is wanted. `private` are the worker's own folders and files.

    Raises IsolationUnavailable.
    """
    if wanted == PROCESS:
        return Isolation()
    failure = _probe()
    if failure is None:
        return Isolation(NAMESPACE, private=tuple(private), private_tmp=_may_replace_tmp())
    if wanted == NAMESPACE:
        raise IsolationUnavailable(f"this machine does not allow user namespaces: {failure}")
    return Isolation()


def _probe() -> str | None:
    """Walls around `true`; why they could not be built, or None."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_command(
            Command(
                argv=["true"],
                cwd=Path(folder),
                env={"PATH": os.defpath},
                marker="probe",
                timeout_seconds=PROBE_SECONDS,
                limits=Limits(),
                walls=Walls(keep=[Path(folder).resolve()]),
            )
        )
    return None if result.ok else result.output.decode("utf-8", "replace").strip() or "unknown reason"


def _hidden(private: Sequence[Path]) -> list[Path]:
    """Outer folders first: what is hidden inside of another is hidden already.

    Asked before each command: a folder may have been made since the worker started.
    """
    home = Path.home()
    found = [*private, *(home / name for name in _SECRETS_AT_HOME), *map(Path, _SOCKETS)]
    resolved = sorted({path.resolve() for path in found if path.exists()}, key=lambda path: len(path.parts))
    kept: list[Path] = []
    for path in resolved:
        if not any(path.is_relative_to(outer) for outer in kept):
            kept.append(path)
    return kept


def _may_replace_tmp() -> bool:
    """Not where programs that commands need lie in it."""
    needed = [*os.environ.get("PATH", "").split(os.pathsep), sys.prefix]
    return not any(Path(path).resolve().is_relative_to(_TMP) for path in needed if path)
