"""A run's own folder: checkouts at the base commit, homes, and everything beside them.

    runs/<id>/owner.json   which process made it, so that orphans can be told
              agent/       checkout, home, exchange-2 … of the agent: all that its commands may write
              verify/ …    the same for a verification, never the agent's folders
              git-1/ …     git directories, one per look, trusted because always new

Isolation "process" is an own session, environment and home, and bounded resources; the file system
and the network are the worker's. Isolation "namespace" puts walls around every command as well, see
`isolation.py`.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import stat
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from worker.client.protocol import Repository
from worker.sandbox.git import GitError, Mirror, Tree
from worker.sandbox.isolation import Isolation
from worker.sandbox.process import KILL_AFTER_SECONDS, Command, Limits, end_marked

logger = logging.getLogger("worker")

OWNER_FILE = "owner.json"
LARGEST_OWNER = 10_000
# A folder without an owner file is one that is being made, or was while its maker died.
HALF_MADE_SECONDS = 3600.0


class RepositoryUnreachable(Exception):  # noqa: N818  named by what happened
    """The repository, its base branch or the recorded commit cannot be had."""


class PathOutside(Exception):  # noqa: N818  named by what happened
    """The contract's working directory leads out of the checkout, or is no folder in it."""


@dataclass(eq=False)
class Checkout:
    """One folder of files at the base commit, with a home of its own."""

    sandbox: Sandbox
    folder: Path
    excluded: frozenset[str] = frozenset()
    exchange: Path | None = None  #: files that pass between the worker and the agent in one call

    @property
    def path(self) -> Path:
        return self.folder / "checkout"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def tmp(self) -> Path:
        """What commands see as /tmp, where they see one of their own."""
        return self.folder / "tmp"

    def new_exchange(self) -> Path:
        """An empty folder for one call; what an earlier call left is in another."""
        self.exchange = self.sandbox.new_folder("exchange", at=self.folder)
        return self.exchange

    def directory(self, relative: str) -> Path:
        """A folder of the checkout. Raises PathOutside."""
        root = self.path.resolve()
        found = (root / relative).resolve()
        if not found.is_relative_to(root) or not found.is_dir():
            raise PathOutside(f"{relative!r} is no folder of the repository")
        return found

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """All a command gets to know of the machine: no token, nothing of the worker's own."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            # Without a `.git` here, git would look for one in the folders above the sandbox.
            "GIT_CEILING_DIRECTORIES": str(self.folder),
            **(more or {}),
        }

    def command(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        timeout_seconds: float,
        network: bool,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        kill_after_seconds: float = KILL_AFTER_SECONDS,
    ) -> Command:
        """A command of this sandbox: marked, limited and, where the machine can, behind walls.

        `env` is all the environment that it gets; without one, that of `environment()`.
        """
        return Command(
            argv=argv,
            cwd=cwd,
            env=self.environment() if env is None else env,
            marker=self.sandbox.id,
            timeout_seconds=timeout_seconds,
            stdin=stdin,
            kill_after_seconds=kill_after_seconds,
            limits=self.sandbox.limits,
            disk=self.sandbox.root,
            walls=self.sandbox.isolation.walls(
                [self.path, self.home, *([self.exchange] if self.exchange else [])], self.tmp, network=network
            ),
        )

    def apply(self, patch: bytes) -> None:
        """Raises GitError when the patch does not apply to the base commit."""
        self.sandbox.look_at(self.path).apply(patch)

    def edit(self, patch: bytes) -> None:
        """Change files as they are by a patch, all of it or nothing. Raises GitError."""
        self.sandbox.look_at(self.path).edit(patch)

    def remove(self) -> bool:
        """While it is there, its folder counts against the sandbox's limit; False when something is left."""
        return remove_tree(self.folder)

    def exclude_untracked(self) -> None:
        """What exists now beside the base's files is no part of the work: setup made it."""
        self.excluded = frozenset(self._untracked(self.sandbox.look_at(self.path)))

    def diff(self) -> bytes:
        """The work so far as a patch on the base commit; empty when nothing changed."""
        tree = self.sandbox.look_at(self.path)
        new = [path for path in self._untracked(tree) if path not in self.excluded]
        return tree.diff(untracked=new)

    def _untracked(self, tree: Tree) -> list[str]:
        return tree.untracked(ignore_from=self.sandbox.ignore_files)


@dataclass(eq=False)
class Sandbox:
    """Made by `Sandbox.create`; gone after `destroy`."""

    id: str
    root: Path
    mirror: Path
    base_commit: str
    isolation: Isolation = field(default_factory=Isolation)
    limits: Limits = field(default_factory=Limits)
    _numbers: count[int] = field(default_factory=lambda: count(1), repr=False)

    @classmethod
    def create(
        cls,
        *,
        work_dir: Path,
        run_id: str,
        repository: Repository,
        base_commit: str | None,
        isolation: Isolation | None = None,
        limits: Limits | None = None,
    ) -> Sandbox:
        """Fetch the repository and make the folder. Raises RepositoryUnreachable."""
        mirror = Mirror(work_dir / "mirrors", repository.url)
        try:
            commit = mirror.fetch(branch=repository.base_branch, commit=base_commit)
        except GitError as error:
            raise RepositoryUnreachable(str(error)) from error
        sandbox_id = f"sbx-{uuid.uuid4().hex[:20]}"
        root = work_dir / "runs" / sandbox_id
        root.mkdir(parents=True, mode=0o700)
        _write_owner(root, run_id=run_id)
        return cls(
            id=sandbox_id,
            root=root.resolve(),
            mirror=mirror.path.resolve(),
            base_commit=commit,
            isolation=isolation or Isolation(),
            limits=limits or Limits(),
        )

    def checkout(self, name: str) -> Checkout:
        """A clean checkout under this name; an older one of the name is gone afterwards.

        Raises FileExistsError when it cannot be removed.
        """
        made = Checkout(self, self.root / name)
        remove_tree(made.folder)
        for part in (made.folder, made.path, made.home, made.home / "tmp", made.tmp):
            part.mkdir()
        self.look_at(made.path).write_files()
        return made

    def look_at(self, folder: Path) -> Tree:
        """The folder against the base commit, through a git directory nobody touched before."""
        git_dir = self.root / f"git-{next(self._numbers)}"
        return Tree(git_dir=git_dir, work_tree=folder, mirror=self.mirror, commit=self.base_commit)

    def new_folder(self, purpose: str, *, at: Path | None = None) -> Path:
        """An empty folder that no command has seen yet."""
        folder = (at or self.root) / f"{purpose}-{next(self._numbers)}"
        folder.mkdir()
        return folder

    def ignore_files(self) -> Path:
        folder = self.new_folder("ignore")
        self.look_at(folder).write_ignore_files(folder)
        return folder

    def destroy(self) -> bool:
        """End what still runs in it and remove it; False when something is left."""
        gone = end_marked(self.id)
        return remove_tree(self.root) and gone


def sweep_orphans(work_dir: Path) -> list[str]:
    """Remove sandboxes of processes that are dead; those of live ones, and of other hosts, stay."""
    swept = []
    for root in sorted((work_dir / "runs").glob("sbx-*")):
        if _is_orphan(root):
            gone = end_marked(root.name) and remove_tree(root)
            logger.info("%s orphaned sandbox %s", "removed" if gone else "could not remove", root)
            swept.append(root.name)
    return swept


def remove_tree(path: Path) -> bool:
    """Remove a folder whatever the modes inside it; True when it is gone. Of a link, the link alone."""
    if not os.path.lexists(path):
        return True
    if path.is_symlink():
        path.unlink()
        return True
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        for folder, _, _ in os.walk(path):
            Path(folder).chmod(stat.S_IRWXU)
        shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def _write_owner(root: Path, *, run_id: str) -> None:
    owner = {
        "pid": os.getpid(),
        "started": _process_started(os.getpid()),
        "boot": _boot_id(),
        "host": socket.gethostname(),
        "run_id": run_id,
    }
    (root / OWNER_FILE).write_text(json.dumps(owner))


def _is_orphan(root: Path) -> bool:
    owner = _read_owner(root / OWNER_FILE)
    if owner is None:
        try:
            return time.time() - root.stat().st_mtime > HALF_MADE_SECONDS
        except FileNotFoundError:
            return False
    if owner.get("host") != socket.gethostname():
        return False
    # The start time tells a living maker from a stranger that was given the same number.
    alive = owner.get("boot") == _boot_id() and owner.get("started") == _process_started(owner["pid"])
    return not alive


def _read_owner(path: Path) -> dict[str, Any] | None:
    """What the file says; None where it is not one that a worker wrote, whatever else lies there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            owner = json.loads(stream.read(LARGEST_OWNER))
    except (OSError, ValueError):
        return None
    return owner if isinstance(owner, dict) and isinstance(owner.get("pid"), int) else None


def _process_started(pid: int) -> str | None:
    """The start time in clock ticks since boot, or None for a process that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
