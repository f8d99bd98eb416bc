"""Real repositories for tests, made without a work tree: exact bytes, any name, any mode."""

from __future__ import annotations

import hashlib
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path

from runs.mirrors import Mirror
from runs.mirrors.process import run_git

Entry = tuple[bytes | str, str, bytes]
Folder = dict[bytes, "tuple[str, bytes] | Folder"]
_WHO = b"test@example.invalid <test@example.invalid> 1700000000 +0000"


class Remote:
    """A bare repository, with shortcuts to put commits into it and to look at it.

    Objects and branches are written as git's own files: a process for each of them would cost most of the
    time of a test that makes many.
    """

    def __init__(self, path: Path, *, object_format: str = "sha1") -> None:
        self.path, self._format = path, object_format
        form = f"--object-format={object_format}"
        self.git("init", "-q", "--bare", "-b", "main", "--template=", form, str(path), at=None)
        with (path / "config").open("a") as config:
            config.write("[receive]\n\tautogc = false\n[gc]\n\tauto = 0\n")

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
        root: Folder = {}
        for path, mode, data in entries:
            *folders, name = _bytes(path).split(b"/")
            here = root
            for folder in folders:
                below = here.setdefault(folder, {})
                assert isinstance(below, dict)
                here = below
            here[name] = (mode, data)
        return self._tree(root)

    def commit(self, entries: Iterable[Entry], *, branch: str = "main", on: str | None = None) -> str:
        """A commit with exactly these files, at the tip of `branch`."""
        parent = f"parent {on}\n".encode() if on else b""
        tree = f"tree {self.tree(entries)}\n".encode()
        made = self._object("commit", tree + parent + b"author %b\ncommitter %b\n\nx\n" % (_WHO, _WHO))
        self.set_branch(branch, made)
        return made

    def set_branch(self, name: str, commit: str) -> None:
        ref = self.path / "refs" / "heads" / name
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(f"{commit}\n")

    def diff(self, before: str, after: str) -> bytes:
        return self.git("diff-tree", "-p", "--binary", "-M", "--full-index", before, after)

    def takes(self, patch: bytes, base: str) -> bool:
        """Whether git can apply what it printed itself: there are names that it cannot."""
        self.git("read-tree", base)
        env = {"GIT_INDEX_FILE": str(self.path / "test-index")}
        return not run_git("apply", "--cached", "--check", "-", git_dir=self.path, env=env, stdin=patch).code

    def branches(self) -> dict[str, str]:
        heads = self.path / "refs" / "heads"
        files = (path for path in heads.rglob("*") if path.is_file())
        return {path.relative_to(heads).as_posix(): path.read_text().strip() for path in files}

    def show(self, name: str) -> bytes:
        return self.git("cat-file", "-p", name)

    def _tree(self, folder: Folder) -> str:
        rows = []
        for name, entry in folder.items():
            if isinstance(entry, dict):
                rows.append((name + b"/", b"40000", name, self._tree(entry)))
            else:
                mode, data = entry
                made = data.decode() if mode == "160000" else self._object("blob", data)
                rows.append((name, mode.encode(), name, made))
        # Git sorts a folder as if its name ended with a slash.
        body = (b"%b %b\0%b" % (mode, name, bytes.fromhex(made)) for _, mode, name, made in sorted(rows))
        return self._object("tree", b"".join(body))

    def _object(self, kind: str, data: bytes) -> str:
        whole = f"{kind} {len(data)}\0".encode() + data
        name = hashlib.new(self._format, whole).hexdigest()
        place = self.path / "objects" / name[:2] / name[2:]
        if not place.exists():
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(zlib.compress(whole, 1))
        return name


def mirror_of(remote: Remote, folder: Path) -> Mirror:
    mirror = Mirror(folder / "mirror.git", remote.url)
    mirror.fetch()
    return mirror


def _bytes(path: bytes | str) -> bytes:
    return path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
