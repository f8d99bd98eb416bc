"""`manage.py sweep`: what is overdue becomes events, as beat does it."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agentplatform import stopping
from runs import livelogs, timeouts


class Command(BaseCommand):
    help = "Act on everything that is overdue, once, and print what was done."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="the default: beat repeats it")

    def handle(self, *args: Any, **options: Any) -> None:
        with stopping.on_signal():
            done = timeouts.sweep()
        for swept in done:
            self.stdout.write(f"{swept.run_id} {swept.scope}: {swept.event or swept.error}")
        if sealed := livelogs.livelogs_seal():
            self.stdout.write(f"{sealed} live logs sealed")
        if any(swept.error for swept in done):
            raise CommandError("Some runs could not be swept; the log says why.")
