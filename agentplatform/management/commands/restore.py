"""`manage.py restore`: a backup into an empty database, then a look at all of it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agentplatform import backups


class Command(BaseCommand):
    help = "Bring a backup back into an empty database; then check every log, row and file."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="the folder of backups")
        parser.add_argument("--name", default="", help="which of them (default: the newest)")

    def handle(self, *args: Any, **options: Any) -> None:
        folder = options["folder"]
        try:
            brought = backups.restore(folder, options["name"] or backups.newest(folder))
        except (backups.BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{brought.name} is back. Looking at every log, row and file.")
        found = backups.look()
        for sentence in backups.sentences(found.all):
            self.stdout.write(sentence)
        if found.broken_chains:
            self.stdout.write("A chain that does not hold: is EVENT_CHAIN_KEY the one it was made with?")
        if found.all:
            raise CommandError(f"{len(found.all)} findings. The database stays as it was restored.")
        self.stdout.write("Every chain holds, no row differs, no artifact or archive is missing.")
