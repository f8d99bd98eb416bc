"""Git on content that nobody trusts.

Git run inside an agent's checkout would execute the agent's code: hooks, fsmonitor, filters,
textconv, external diffs. So every call names a git directory of the worker's own, made afresh
outside the checkout; takes no system, user or in-tree configuration; and has the attributes that
change bytes or run programs switched off. The checkout holds no `.git` at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

FETCH_SECONDS = 900.0
SHA256_DIGITS = 64
COMMAND_SECONDS = 300.0

_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.quotePath=true",
    "core.symlinks=true",
    "core.fileMode=true",
    "core.pager=cat",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.external=",
    "diff.orderFile=/dev/null",
    "diff.suppressBlankEmpty=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "transfer.fsckObjects=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "safe.directory=*",
    "protocol.ext.allow=never",
)
# The highest precedence there is: what the tree's own .gitattributes says is taken back.
_ATTRIBUTES = "* -text !eol !filter !ident !working-tree-encoding !diff !merge !export-subst\n"


class GitError(Exception):
    """Git failed; the message is the end of what it said."""


def git(
    *arguments: str,
    git_dir: Path,
    work_tree: Path | None = None,
    stdin: bytes = b"",
    timeout: float = COMMAND_SECONDS,
    ok_statuses: Sequence[int] = (0,),
) -> bytes:
    """Standard output of one hardened call. Raises GitError."""
    argv = ["git", *(part for item in _CONFIG for part in ("-c", item)), f"--git-dir={git_dir}"]
    if work_tree is not None:
        argv.append(f"--work-tree={work_tree}")
    process = subprocess.Popen(
        [*argv, *arguments],
        cwd=work_tree or git_dir,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise GitError(f"git {arguments[0]} took longer than {timeout:.0f} s") from error
    if process.returncode not in ok_statuses:
        raise GitError(f"git {arguments[0]}: {err.decode('utf-8', 'replace').strip()[-2000:]}")
    return out


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "SSH_AUTH_SOCK") if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    }


class Mirror:
    """A bare copy of one remote, shared by the sandboxes of a work folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.path = folder / (hashlib.sha256(url.encode()).hexdigest()[:24] + ".git")

    def fetch(self, *, branch: str, commit: str | None) -> str:
        """Bring the mirror up to date; the full id of `commit`, or of the branch's tip."""
        with self._locked():
            if not (self.path / "HEAD").exists():
                init_bare(self.path)
                if self._is_sha256():
                    shutil.rmtree(self.path)
                    init_bare(self.path, sha256=True)
            if commit and self._has(commit):
                return self._resolve(commit)
            self._fetch(f"+refs/heads/{branch}:refs/heads/{branch}")
            if commit and not self._has(commit):
                self._fetch("+refs/heads/*:refs/heads/*")
            return self._resolve(commit or f"refs/heads/{branch}")

    def _fetch(self, refspec: str) -> None:
        git(
            "fetch",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--quiet",
            "--",
            self.url,
            refspec,
            git_dir=self.path,
            timeout=FETCH_SECONDS,
        )

    def _is_sha256(self) -> bool:
        """Whether the remote names objects by SHA-256; an unreachable one is told by the fetch."""
        try:
            found = git("ls-remote", "--", self.url, git_dir=self.path, timeout=FETCH_SECONDS)
        except GitError:
            return False
        return len(found.partition(b"\t")[0]) == SHA256_DIGITS

    def _has(self, commit: str) -> bool:
        try:
            self._resolve(commit)
        except GitError:
            return False
        return True

    def _resolve(self, name: str) -> str:
        out = git("rev-parse", "--verify", "--end-of-options", name + "^{commit}", git_dir=self.path)
        return out.decode().strip()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def init_bare(path: Path, *, alternate: Path | None = None, sha256: bool = False) -> None:
    """An empty git directory that may borrow another's objects, named by the same kind of digest.

    Written by hand: it is made for every single look, and no template has a say in it.
    """
    path.mkdir(parents=True)  # one that is there already was made by somebody else
    for part in ("objects/info", "refs", "info"):
        (path / part).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    (path / "config").write_text(
        "[core]\n\trepositoryformatversion = 1\n\tbare = true\n"
        f"[extensions]\n\tobjectFormat = {'sha256' if sha256 else 'sha1'}\n"
    )
    (path / "info" / "attributes").write_text(_ATTRIBUTES)
    if alternate is not None:
        (path / "objects" / "info" / "alternates").write_text(f"{alternate / 'objects'}\n")


class Tree:
    """A folder of files seen through a git directory made for this one look."""

    def __init__(self, *, git_dir: Path, work_tree: Path, mirror: Path, commit: str) -> None:
        init_bare(git_dir, alternate=mirror, sha256=len(commit) == SHA256_DIGITS)
        self._git_dir = git_dir
        self._work_tree = work_tree
        self._commit = commit
        self._git("read-tree", commit, work_tree=False)

    def write_files(self) -> None:
        self._git("checkout-index", "--all", "--force", "--quiet")

    def paths(self) -> list[str]:
        return _split(self._git("ls-files", "-z", work_tree=False))

    def untracked(self, *, ignore_from: Callable[[], Path]) -> list[str]:
        """Files the base does not know and its own `.gitignore`s do not hide.

        The ignore files are those of the base commit, not those in the checkout: an agent could
        hide files from its own patch by changing them.
        """
        found = _split(self._git("ls-files", "-z", "--others"))
        # A folder with a `.git` of its own is listed as one entry, and cannot be part of a patch.
        files = [path for path in found if not path.endswith("/")]
        ignored = self._ignored(files, ignore_from()) if files else frozenset()
        return [path for path in files if path not in ignored]

    def write_ignore_files(self, folder: Path) -> None:
        """The base commit's `.gitignore`s alone, as they lie in the tree."""
        names = [path for path in self.paths() if path.rsplit("/", 1)[-1] == ".gitignore"]
        listing = _encode("".join(f"{path}\0" for path in names))
        self._git("checkout-index", "-z", "--stdin", f"--prefix={folder}/", stdin=listing)

    def apply(self, patch: bytes) -> None:
        """Raises GitError when it does not apply."""
        # An index that was just read knows no file's state yet, and apply compares states.
        self._git("update-index", "-q", "--refresh", ok_statuses=(0, 1))
        self._git("apply", "--index", "--whitespace=nowarn", "-", stdin=patch)

    def edit(self, patch: bytes) -> None:
        """Apply to the files as they are, whatever the base commit says. Raises GitError."""
        self._git("apply", "--whitespace=nowarn", "-", stdin=patch)

    def diff(self, *, untracked: Sequence[str]) -> bytes:
        """The patch from the base commit to the folder as it is, `git diff --binary`."""
        self._git("add", "--update", "--ignore-errors", ".", ok_statuses=(0, 1))
        if untracked:
            listing = "".join(f"{path}\0" for path in untracked)
            self._git("update-index", "--add", "-z", "--stdin", stdin=_encode(listing))
        return self._git(
            "diff",
            "--cached",
            "--binary",
            "--full-index",
            "--find-renames",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            self._commit,
            work_tree=False,
        )

    def _ignored(self, paths: Sequence[str], ignore_from: Path) -> frozenset[str]:
        out = git(
            "check-ignore",
            "--no-index",
            "-z",
            "--stdin",
            git_dir=self._git_dir,
            work_tree=ignore_from,
            stdin=_encode("".join(f"{path}\0" for path in paths)),
            ok_statuses=(0, 1),
        )
        return frozenset(_split(out))

    def _git(
        self,
        *arguments: str,
        work_tree: bool = True,
        stdin: bytes = b"",
        ok_statuses: Sequence[int] = (0,),
    ) -> bytes:
        return git(
            *arguments,
            git_dir=self._git_dir,
            work_tree=self._work_tree if work_tree else None,
            stdin=stdin,
            ok_statuses=ok_statuses,
        )


def _split(out: bytes) -> list[str]:
    return [os.fsdecode(part) for part in out.split(b"\0") if part]


def _encode(text: str) -> bytes:
    return os.fsencode(text)
