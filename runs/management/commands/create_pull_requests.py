"""`manage.py create_pull_requests`: approved patches go out, as beat does it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runs.pull_requests.run import create_pull_requests


class Command(BaseCommand):
    help = "Bring out the approved patches that wait, and print what became of each."

    def handle(self, *args: Any, **options: Any) -> None:
        for done in create_pull_requests():
            self.stdout.write(f"{done.run_id}: {done.event or done.refused}")
