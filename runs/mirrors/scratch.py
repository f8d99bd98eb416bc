"""A throw-away index and object store over a mirror: trees are made, nothing is kept.

What a patch adds is written to its own folder and removed with it, so that a mirror never
holds content that nobody approved.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from runs.mirrors.process import Output, checked, run_git, said

SYMLINK = "120000"
_PREFIX = "scratch-"
_ORPHANED_AFTER = 24 * 3600.0


class TreeChange(NamedTuple):
    """One path that differs between two trees; a missing side has mode None."""

    path: str
    old_mode: str | None
    new_mode: str | None
    old_id: str
    new_id: str


class Scratch:
    """Use as a context manager; everything in it is gone afterwards."""

    def __init__(self, git_dir: Path, *, timeout: float) -> None:
        self._git_dir, self._timeout = git_dir, timeout
        _remove_orphans(git_dir.parent)
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=git_dir.parent)
        place = Path(self._folder.name)
        info = place / "objects" / "info"
        info.mkdir(parents=True)
        (info / "alternates").write_bytes(os.fsencode(git_dir.resolve() / "objects") + b"\n")
        self._env = {
            "GIT_INDEX_FILE": str(place / "index"),
            "GIT_OBJECT_DIRECTORY": str(place / "objects"),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def run(self, *args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Output:
        return run_git(
            *args,
            git_dir=self._git_dir,
            cwd=self._folder.name,
            env={**self._env, **(env or {})},
            stdin=stdin,
            timeout=self._timeout,
        )

    def load(self, tree: str) -> None:
        """Fill the index with a commit's or a tree's content."""
        checked(self.run("read-tree", tree))

    def apply(self, patch: bytes, *, reverse: bool = False, check: bool = False) -> Output:
        """`git apply` on the index alone: no fuzz, no three-way merge, no work tree.

        With `check` the index stays as it is. The error output names moved hunks.
        """
        options = ["--cached", "--verbose", "--whitespace=nowarn"]
        options += ["--reverse"] * reverse + ["--check"] * check
        return self.run("apply", *options, "-", stdin=patch)

    def applies_to(self, tree: str, patch: bytes, *, reverse: bool = False) -> str | None:
        """None when the patch applies to this commit or tree, else git's reason."""
        self.load(tree)
        result = self.apply(patch, reverse=reverse, check=True)
        return said(result.err) if result.code else None

    def write_tree(self) -> str:
        return checked(self.run("write-tree")).decode().strip()

    def tree_of(self, commit: str) -> str:
        return checked(self.run("rev-parse", "--verify", f"{commit}^{{tree}}")).decode().strip()

    def changes(self, before: str, after: str) -> list[TreeChange]:
        """The paths in which two trees differ, without guessing renames."""
        out = checked(self.run("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after))
        fields = out.split(b"\0")[:-1]
        pairs = zip(fields[::2], fields[1::2], strict=True)
        return [_change(meta.decode(), path) for meta, path in pairs]

    def links(self, changes: list[TreeChange]) -> dict[str, str]:
        """Where each changed symbolic link points in the new tree."""
        found = [change for change in changes if change.new_mode == SYMLINK]
        return {change.path: self._blob(change.new_id) for change in found}

    def _blob(self, name: str) -> str:
        return checked(self.run("cat-file", "blob", name)).decode("utf-8", "surrogateescape")


def _remove_orphans(folder: Path) -> None:
    """What a killed process left: it may hold content that nobody approved."""
    for place in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - place.stat().st_mtime > _ORPHANED_AFTER:
                shutil.rmtree(place, ignore_errors=True)


def _change(meta: str, path: bytes) -> TreeChange:
    old_mode, new_mode, old_id, new_id, _ = meta.removeprefix(":").split(" ")
    return TreeChange(
        path.decode("utf-8", "surrogateescape"),
        None if old_mode == "000000" else old_mode,
        None if new_mode == "000000" else new_mode,
        old_id,
        new_id,
    )
