"""Real repositories for tests, made without a work tree: exact bytes, any name, any mode."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from runs.mirrors import Mirror
from runs.mirrors.process import run_git

Entry = tuple[bytes | str, str, bytes]
ZERO = "0" * 40


class Remote:
    """A bare repository, with shortcuts to put commits into it and to look at it."""

    def __init__(self, path: Path, *, object_format: str = "sha1") -> None:
        self.path = path
        form = f"--object-format={object_format}"
        self.git("init", "-q", "--bare", "-b", "main", form, str(path), at=None)

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *args: str, stdin: bytes = b"", at: str | None = "") -> bytes:
        where = () if at is None else (f"--git-dir={self.path}",)
        env = {
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_INDEX_FILE": str(self.path / "test-index"),
            **{
                f"GIT_{who}_{what}": "test@example.invalid"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
            **{f"GIT_{who}_DATE": "1700000000 +0000" for who in ("AUTHOR", "COMMITTER")},
        }
        done = subprocess.run(
            ("git", "-c", "core.protectNTFS=false", *where, *args),
            input=stdin,
            env=env,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tree(self, entries: Iterable[Entry]) -> str:
        """A tree of exactly these (path, mode, content or commit id)."""
        rows = [
            b"%s %s\t%s" % (mode.encode(), self._object(mode, data), _bytes(path))
            for path, mode, data in entries
        ]
        self.git("read-tree", "--empty")
        self.git("update-index", "-z", "--index-info", stdin=b"".join(row + b"\0" for row in rows))
        return self.git("write-tree").decode().strip()

    def commit(self, entries: Iterable[Entry], *, branch: str = "main", on: str | None = None) -> str:
        """A commit with exactly these files, at the tip of `branch`."""
        parent = ("-p", on) if on else ()
        made = self.git("commit-tree", *parent, "-m", "x", self.tree(entries)).decode().strip()
        self.git("update-ref", f"refs/heads/{branch}", made)
        return made

    def diff(self, before: str, after: str) -> bytes:
        return self.git("diff-tree", "-p", "--binary", "-M", "--full-index", before, after)

    def takes(self, patch: bytes, base: str) -> bool:
        """Whether git can apply what it printed itself: there are names that it cannot."""
        self.git("read-tree", base)
        env = {"GIT_INDEX_FILE": str(self.path / "test-index")}
        return not run_git("apply", "--cached", "--check", "-", git_dir=self.path, env=env, stdin=patch).code

    def branches(self) -> dict[str, str]:
        rows = self.git("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads").decode()
        return dict(row.split(" ") for row in rows.splitlines())

    def show(self, name: str) -> bytes:
        return self.git("cat-file", "-p", name)

    def _object(self, mode: str, data: bytes) -> bytes:
        if mode == "160000":
            return data
        return self.git("hash-object", "-w", "--stdin", stdin=data).strip()


def mirror_of(remote: Remote, folder: Path) -> Mirror:
    mirror = Mirror(folder / "mirror.git", remote.url)
    mirror.fetch()
    return mirror


def _bytes(path: bytes | str) -> bytes:
    return path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
