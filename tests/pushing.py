"""A repository of its own, runs whose approved patch waits to go out to it, and others who work on it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from runs.domain.vocabulary import RunStatus
from tests import factories


def git(*words: str, at: Path) -> str:
    who = {
        f"GIT_{r}_{w}": "alice@example.invalid" for r in ("AUTHOR", "COMMITTER") for w in ("NAME", "EMAIL")
    }
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, **who}
    done = subprocess.run(
        ["git", *words], cwd=at, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def bring(origin, **fields) -> factories.Holder:
    """A run that waits for the git integration."""
    where = fields.pop("where", None) or factories.repository(url=origin.url)
    run = factories.queued_run(where, auto_pr=True, **fields)
    holder = factories.claim(run=run, labels=fields.get("needs", ()))
    holder.patch, holder.base_commit = origin.patch, origin.commit
    return factories.drive(holder, RunStatus.PR_CREATING)


def commit_to_main(origin, files: dict[str, str]) -> None:
    """Somebody else's commit on the base branch."""
    checkout = origin.path.parent / "checkout"
    for name, text in files.items():
        (checkout / name).write_text(text)
    git("add", ".", at=checkout)
    git("commit", "--quiet", "--message=Meanwhile", at=checkout)
    git("push", "--quiet", str(origin.path), "HEAD:main", at=checkout)
