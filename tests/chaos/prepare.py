"""Fills a product that was just started: people, a machine, a repository, a webhook. Prints JSON.

python -m tests.chaos.prepare WORLD HOOK
"""

from __future__ import annotations

import json
import os
import sys
from io import StringIO
from pathlib import Path
from typing import Any, Final

import django

#: Short clocks: a worker that dies is missed within seconds, and the next run begins at once.
POLICY: Final[dict[str, Any]] = {
    "lease_seconds": 6,
    "heartbeat_interval_seconds": 2,
    "retry_base_seconds": 0.1,
    "retry_max_seconds": 1,
    "budget": {"max_takeovers": 1_000, "max_runs": 1_000, "max_attempts": 100, "max_outside_writes": 100},
}
FILES: Final = {"notes.txt": "one\ntwo\n", "AGENTS.md": "Write numbers as words.\n"}


def main(world: Path, hook: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentplatform.settings")
    django.setup()
    remote = make_remote(world / "remote")
    tokens = {
        "submitter": printed("create_person", "sam", "--role", "submitter", "--token"),
        "reviewer": printed("create_person", "rita", "--role", "reviewer", "--token"),
        "operator": printed("create_person", "olga", "--role", "operator", "--token"),
        "worker": printed("create_worker", "machine", *roles("worker", "agent_runtime", "verifier", "judge")),
    }
    policy = world / "policy.json"
    policy.write_text(json.dumps(POLICY))
    printed("create_repository", "package", "--url", remote.as_uri(), "--policy", str(policy))
    made = {**tokens, "remote": str(remote), "webhook": make_webhook(hook), "session": make_session("olga")}
    print(json.dumps(made))  # noqa: T201  that is what it is for


def roles(*names: str) -> list[str]:
    return [word for name in names for word in ("--role", name)]


def printed(*words: str) -> str:
    from django.core.management import call_command

    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue().strip()


def make_remote(folder: Path) -> Path:
    """A bare repository with one commit."""
    from tests.worker.repositories import commit_files, git

    first = folder.with_name("first")
    first.mkdir(parents=True)
    git(first, "init", "-q", "-b", "main", "--template=")
    commit_files(first, FILES)
    git(first, "clone", "-q", "--bare", str(first), str(folder))
    return folder


def make_webhook(hook: str) -> str:
    """One that hears of every run's beginning and end; its id."""
    from approvals.notices.models import Webhook
    from runs.models import Person

    wanted = ["RunQueued", "RunLeased", "RunPatchReady", "RunJudgePassed", "RunPrCreated", "RunSucceeded"]
    owner = Person.objects.get(username="olga")
    return str(Webhook.objects.create(name="watcher", url=hook, events=wanted, owner=owner).pk)


def make_session(name: str) -> str:
    """The cookie of somebody who has signed in and looks at pages."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

    from runs.models import Person
    from runs.models.sessions import SessionStore

    person, session = Person.objects.get(username=name), SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.save()
    return str(session.session_key)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
