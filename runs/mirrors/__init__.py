"""Bare mirrors of repositories, and git's own word on a patch.

Knows no settings and no models: a mirror is a folder and an address. Safe to use from
several processes at once; fetching is done by one at a time.
"""

from __future__ import annotations

import fcntl
import functools
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Final

import structlog

from runs.domain.patch import AmbiguousPatch, NotAPatch, PatchFile, read_patch
from runs.domain.patch.reading import GitWord
from runs.mirrors.process import DEFAULT_TIMEOUT, GitFailed, GitTimeout, checked, run_git, said
from runs.mirrors.scratch import Scratch, TreeChange

log = structlog.get_logger(__name__)

__all__ = [
    "CommitMissing",
    "GitFailed",
    "GitReading",
    "GitTimeout",
    "Mirror",
    "Scratch",
    "TreeChange",
]

#: Seconds between two looks at whether somebody else still fetches.
LOOK_AGAIN: Final = 0.05
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_SHA256_DIGITS = 64
_MOVED_HUNK = re.compile(r"^Hunk #\d+ succeeded at \d+ \(offset", re.MULTILINE)
_LINE = re.compile(r"\bat line (\d+)|\bline (\d+)\b")


class CommitMissing(GitFailed):
    """The mirror has no such commit, not even after asking the repository."""


@dataclass(frozen=True, slots=True)
class GitReading:
    """A patch as git applied it to `base_commit`: files, resulting tree, true differences.

    `applies_to_head` is None when no head was given; `why` says what git had against it.
    """

    files: tuple[PatchFile, ...]
    changes: tuple[TreeChange, ...]
    links: dict[str, str]
    base_commit: str
    tree: str
    head: str | None
    applies_to_head: bool | None
    why: str

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(change.path for change in self.changes)

    @property
    def word(self) -> GitWord:
        """The part that the stored reading keeps."""
        return GitWord(
            commit=self.base_commit,
            applies=True,
            tree=self.tree,
            head=self.head,
            applies_to_head=self.applies_to_head,
            why=self.why,
            modes={change.path: (change.old_mode, change.new_mode) for change in self.changes},
            links=self.links,
        )


def _open_to_all() -> Mapping[str, str]:
    return {}


class Mirror:
    """One repository's bare mirror at `path`, filled from `url` when asked.

    `login` gives the environment with which git is let in at `url`; it is asked anew for each
    command that talks to the repository, and may raise GitFailed.
    """

    def __init__(self, path: Path, url: str, login: Callable[[], Mapping[str, str]] = _open_to_all) -> None:
        self.path, self.url, self.login = Path(path), url, login

    def fetch(self, *, branch: str | None = None, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Bring one branch, or all, up to date. GitFailed when the repository is not to be had.

        A branch that is gone there is gone here when all are fetched.
        """
        if branch is None:
            self._fetch("--prune", "+refs/heads/*:refs/heads/*", timeout=timeout)
        else:
            ref = _branch_ref(branch)
            self._fetch(f"+{ref}:{ref}", timeout=timeout)

    def ensure(self, commit: str, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Have this commit, or raise CommitMissing (GitFailed when unreachable)."""
        if self.has(commit):
            return
        self.fetch(timeout=timeout)
        if not self.has(commit):
            raise CommitMissing(f"no commit {commit[:12]} on any branch of the repository")

    def has(self, commit: str) -> bool:
        """Whether the mirror holds this commit."""
        if not _COMMIT.fullmatch(commit) or not self._exists():
            return False
        return not run_git("cat-file", "-e", f"{commit}^{{commit}}", git_dir=self.path).code

    def resolve(self, branch: str) -> str | None:
        """The commit at the tip of a branch as last fetched, or None."""
        if not self._exists():
            return None
        name = f"{_branch_ref(branch)}^{{commit}}"
        found = run_git("rev-parse", "--verify", "--quiet", name, git_dir=self.path)
        return None if found.code else found.out.decode().strip()

    def contains(self, branch: str, commit: str) -> bool:
        """Whether a branch as last fetched has this commit in its history."""
        ref = _branch_ref(branch)
        if not self.has(commit) or self.resolve(branch) is None:
            return False
        return not run_git("merge-base", "--is-ancestor", commit, ref, git_dir=self.path).code

    def blob(self, commit: str, path: str, *, limit: int, timeout: float = DEFAULT_TIMEOUT) -> bytes | None:
        """The file at `path` in a commit; None where there is none, or it is larger than `limit` bytes."""
        if not self.has(commit):
            return None
        name = f"{commit}:{path}"
        size = run_git("cat-file", "-s", name, git_dir=self.path, timeout=timeout)
        if size.code or int(size.out) > limit:
            return None
        found = run_git("cat-file", "blob", name, git_dir=self.path, timeout=timeout)
        return None if found.code else found.out

    def apply_check(
        self, patch: bytes, commit: str, *, reverse: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> str | None:
        """None when the patch applies to `commit` (`reverse`: can be taken back), else why not."""
        self._need(commit)
        with self.scratch(timeout=timeout) as scratch:
            return scratch.applies_to(commit, patch, reverse=reverse)

    def read(
        self,
        patch: bytes,
        base_commit: str,
        head: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> GitReading:
        """Read a patch and let git judge the reading.

        Raises NotAPatch, UnsafePath or AmbiguousPatch; CommitMissing when the mirror does
        not have `base_commit` (call `ensure` first). `timeout` is for each git command.
        """
        files = read_patch(patch)
        self._need(base_commit)
        with self.scratch(timeout=timeout) as scratch:
            _agree_on_counts(files, _numstat(scratch, patch))
            tree, changes = _applied(scratch, patch, base_commit)
            _agree_on_paths(files, changes)
            why = scratch.applies_to(head, patch) if head and head != base_commit else None
            return GitReading(
                files=files,
                changes=tuple(changes),
                links=scratch.links(changes),
                base_commit=base_commit,
                tree=tree,
                head=head,
                applies_to_head=None if head is None else why is None,
                why=why or "",
            )

    def scratch(self, *, timeout: float = DEFAULT_TIMEOUT) -> Scratch:
        """A throw-away index and object store over this mirror."""
        return Scratch(self.path, timeout=timeout)

    def remote_refs(self, *patterns: str, timeout: float = DEFAULT_TIMEOUT) -> dict[str, str]:
        """Full ref name → commit in the repository itself, for refs that match a pattern."""
        found = run_git("ls-remote", "--", self.url, *patterns, env=self.login(), timeout=timeout)
        rows = (row.partition("\t") for row in checked(found).decode("utf-8", "replace").split("\n"))
        return {ref: commit for commit, _, ref in rows if ref}

    def _need(self, commit: str) -> None:
        if not self.has(commit):
            raise CommitMissing(f"no commit {commit[:12]} here")

    def _exists(self) -> bool:
        return (self.path / "HEAD").exists()

    def _fetch(self, *refs: str, timeout: float) -> None:
        options = [ref for ref in refs if ref.startswith("--")]
        specs = [ref for ref in refs if not ref.startswith("--")]
        with self._alone(timeout):
            if not self._exists():
                form = f"--object-format={self._object_format(timeout)}"
                checked(run_git("init", "--quiet", "--bare", "--template=", form, "--", str(self.path)))
            self._remove_stale_locks()
            checked(
                run_git(
                    "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
                    "--no-recurse-submodules", *options, "--", self.url, *specs,
                    git_dir=self.path, env=self.login(), timeout=timeout,
                )
            )  # fmt: skip

    def _remove_stale_locks(self) -> None:
        """Whoever writes refs here is alone: a lock of git's is of one that was killed, and stops others."""
        for lock in chain(self.path.glob("*.lock"), self.path.glob("refs/**/*.lock")):
            log.warning("mirror_lock_removed", lock=lock.name)
            lock.unlink(missing_ok=True)

    def _object_format(self, timeout: float) -> str:
        """By what the repository names its objects; an empty one is taken for the usual kind."""
        found = checked(run_git("ls-remote", "--", self.url, env=self.login(), timeout=timeout))
        return "sha256" if len(found.partition(b"\t")[0]) == _SHA256_DIGITS else "sha1"

    @contextmanager
    def _alone(self, timeout: float) -> Iterator[None]:
        """One process at a time; whoever fetches longer than we may wait keeps us from it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(self.path.name + ".lock").open("ab") as lock:
            until = time.monotonic() + timeout
            while not _taken(lock):
                if time.monotonic() >= until:
                    raise GitTimeout(f"another process has been fetching here for {timeout:g} s")
                time.sleep(LOOK_AGAIN)
            yield


def _taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@functools.lru_cache(maxsize=1_000)
def _branch_ref(branch: str) -> str:
    ref = f"refs/heads/{branch}"
    if run_git("check-ref-format", ref).code:
        raise GitFailed(f"{branch!r} is no name for a branch")
    return ref


def _numstat(scratch: Scratch, patch: bytes) -> dict[str, tuple[int, int, bool]]:
    """What git itself reads: path → (added, deleted, binary)."""
    result = scratch.run("apply", "--numstat", "-z", "--whitespace=nowarn", "-", stdin=patch)
    if result.code:
        raise _not_a_patch(result.err)
    counts: dict[str, tuple[int, int, bool]] = defaultdict(lambda: (0, 0, False))
    for row in result.out.split(b"\0")[:-1]:
        added, deleted, name = row.split(b"\t", 2)
        path = name.decode("utf-8", "surrogateescape")
        before, binary = counts[path], added == b"-"
        more = (0, 0) if binary else (int(added), int(deleted))
        counts[path] = (before[0] + more[0], before[1] + more[1], before[2] or binary)
    return dict(counts)


def _agree_on_counts(files: Sequence[PatchFile], counts: dict[str, tuple[int, int, bool]]) -> None:
    mine = {file.path: (file.added, file.deleted, file.binary) for file in files}
    if mine != counts:
        different = sorted(path for path, _ in mine.items() ^ counts.items())
        raise AmbiguousPatch(f"git reads other changes of {different[0]!r}")


def _applied(scratch: Scratch, patch: bytes, commit: str) -> tuple[str, list[TreeChange]]:
    scratch.load(commit)
    result = scratch.apply(patch)
    if result.code:
        raise _not_a_patch(result.err)
    if _MOVED_HUNK.search(result.err):
        raise AmbiguousPatch("a hunk belongs to other lines than it says")
    tree = scratch.write_tree()
    changes = scratch.changes(scratch.tree_of(commit), tree)
    if not changes:
        raise NotAPatch(None, "it changes nothing")
    return tree, changes


def _agree_on_paths(files: Sequence[PatchFile], changes: Sequence[TreeChange]) -> None:
    mine = {path for file in files for path in file.touched}
    different = mine ^ {change.path for change in changes}
    if different:
        raise AmbiguousPatch(f"git changes other paths: {min(different)!r}")


def _not_a_patch(err: str) -> NotAPatch:
    message = said(err)
    found = _LINE.search(message)
    advice = "; make it with git diff --binary" if "without full index line" in message else ""
    return NotAPatch(int(found[1] or found[2]) if found else None, f"git says: {message}{advice}")
