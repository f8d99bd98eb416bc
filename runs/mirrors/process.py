"""Running git so that nothing but what is asked for happens.

No configuration of system or user, no hooks, no prompts, no transport but file, https and
ssh, one language for messages, a time limit on the whole process group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

DEFAULT_TIMEOUT = 60.0

_KEPT = (
    "PATH",
    "HOME",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
)
_FIXED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "GIT_ALLOW_PROTOCOL": "file:https:ssh",
    "LC_ALL": "C",
}
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.protectNTFS": "true",
    "core.protectHFS": "true",
    "core.quotePath": "true",
    "maintenance.auto": "false",
    "gc.auto": "0",
    # A checkout by a person of the machine may belong to somebody else.
    "safe.directory": "*",
}
_OPTIONS = tuple(part for k, v in _SETTINGS.items() for part in ("-c", f"{k}={v}"))


class GitFailed(Exception):  # noqa: N818  named by what happened
    """git ended with an error; `message` is what it said, without its own prefixes."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class GitTimeout(GitFailed):
    """git did not finish within its time and was stopped with all its children."""


class Output(NamedTuple):
    code: int
    out: bytes
    err: str


def run_git(
    *args: str,
    git_dir: str | os.PathLike[str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = DEFAULT_TIMEOUT,
) -> Output:
    """Run one git command. `timeout` in seconds; a failing command is not an error here."""
    where = () if git_dir is None else (f"--git-dir={os.fspath(git_dir)}",)
    command: Sequence[str] = ("git", *_OPTIONS, *where, *args)
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=_environment(env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        # ssh and the https helper are children that would hold the pipes open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise GitTimeout(f"git {args[0]} did not finish within {timeout:g} s") from error
    return Output(process.returncode, out, err.decode("utf-8", "backslashreplace"))


def checked(output: Output) -> bytes:
    """The output of a command that had to succeed, or GitFailed."""
    if output.code:
        raise GitFailed(said(output.err))
    return output.out


def said(err: str) -> str:
    """git's complaint in one short line."""
    lines = [line.strip() for line in err.splitlines()]
    kept = [
        line.removeprefix("error: ").removeprefix("fatal: ")
        for line in lines
        if line.startswith(("error: ", "fatal: ", "remote: ", "!"))
    ]
    return "; ".join(kept or [line for line in lines if line])[:500] or "git gave no reason"


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, **_FIXED, **extra}
