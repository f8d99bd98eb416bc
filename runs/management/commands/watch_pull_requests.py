"""`manage.py watch_pull_requests`: open pull requests are looked at, as beat does it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runs.pull_requests.watch import watch_pull_requests


class Command(BaseCommand):
    help = "Look at the open pull requests that are due, and print how each stands."

    def handle(self, *args: Any, **options: Any) -> None:
        for seen in watch_pull_requests():
            found = " ".join(part for part in (seen.state, seen.checks and f"checks {seen.checks}") if part)
            self.stdout.write(f"{seen.pull_request_id}: {found or seen.error}")
