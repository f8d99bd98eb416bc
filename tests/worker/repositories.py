"""Small git repositories for the worker's tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FILES = {
    "clock.py": "def hour():\n    return 12\n",
    "notes.txt": "one\ntwo\n",
    ".gitignore": "*.log\nbuild/\n",
}


def git(folder: Path, *arguments: str) -> str:
    """Git as a person would have it, without this machine's configuration."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit_files(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "-m", "Change")
    return git(folder, "rev-parse", "HEAD")
