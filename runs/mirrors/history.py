"""What became of a branch: its commits since a day, and git's id of a difference, by which the same change is
known wherever it stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runs.mirrors.process import DEFAULT_TIMEOUT, checked, run_git


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit as git tells it; a merge has no paths of its own."""

    sha: str
    parents: tuple[str, ...]
    at: datetime
    message: str
    paths: frozenset[str]


def entries(
    git_dir: Path, branch: str, *, since: datetime, most: int, timeout: float = DEFAULT_TIMEOUT
) -> list[Entry]:
    """Commits of a branch as last fetched, parents first; of more than ``most`` the newest."""
    out = checked(
        run_git(
            "log", "-z", "--topo-order", "--format=%H%n%P%n%ct%n%B", f"--max-count={most}",
            f"--since={since.isoformat()}", f"refs/heads/{branch}", "--", git_dir=git_dir, timeout=timeout,
        )
    )  # fmt: skip
    told = [record.decode("utf-8", "replace").split("\n", 3) for record in out.split(b"\0") if record.strip()]
    paths = _paths(git_dir, [sha for sha, *_ in told], timeout)
    found = [
        Entry(sha, tuple(parents.split()), datetime.fromtimestamp(int(at), UTC), words, paths[sha])
        for sha, parents, at, words in told
    ]
    return found[::-1]


def _paths(git_dir: Path, commits: Sequence[str], timeout: float) -> dict[str, frozenset[str]]:
    known, found = set(commits), defaultdict[str, set[str]](set)
    out = checked(
        run_git(
            "diff-tree", "--stdin", "-r", "-z", "--root", "--name-only", "--no-renames",
            git_dir=git_dir, stdin="".join(f"{sha}\n" for sha in commits).encode(), timeout=timeout,
        )
    )  # fmt: skip
    now = ""
    for name in _names(out):
        if name in known:
            now = name
        else:
            found[now].add(name)
    return {sha: frozenset(found[sha]) for sha in commits}


def _names(out: bytes) -> Iterator[str]:
    for name in out.split(b"\0"):
        if name := name.removeprefix(b"\n"):
            yield name.decode("utf-8", "surrogateescape")


def difference_id(patch: bytes, *, timeout: float = DEFAULT_TIMEOUT) -> str:
    """Git's id of a difference, whatever line it stands at; "" for none."""
    out = checked(run_git("patch-id", "--stable", stdin=patch, timeout=timeout))
    return out.decode().partition(" ")[0].strip()


def commit_difference_id(
    git_dir: Path, commit: str, *, reverse: bool = False, timeout: float = DEFAULT_TIMEOUT
) -> str:
    """The same of a commit with one parent, or of what it takes back (``reverse``).

    Not git's own ``-R``, which turns the names round as well and gives the difference another id.
    """
    trees = (commit, f"{commit}^") if reverse else (f"{commit}^", commit)
    shown = run_git(
        "diff-tree", "-p", "-r", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv",
        *trees, git_dir=git_dir, timeout=timeout,
    )  # fmt: skip
    return difference_id(checked(shown), timeout=timeout)
