"""`manage.py create_pull_requests`: approved patches go out, as beat does it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from agentplatform import stopping
from runs.pull_requests.run import create_pull_requests


class Command(BaseCommand):
    help = "Bring out the approved patches that wait, and print what became of each."

    def handle(self, *args: Any, **options: Any) -> None:
        with stopping.on_signal():
            made = create_pull_requests()
        for done in made:
            self.stdout.write(f"{done.run_id}: {done.event or done.refused}")
