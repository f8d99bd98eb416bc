"""`manage.py backup`: database, artifacts and archives into a folder, while everything runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agentplatform import backups


class Command(BaseCommand):
    help = "Add a backup to a folder: a dump of the database, and the files that are not there yet."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, help="the same each time; made where it is missing")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = backups.backup(options["folder"])
        except (backups.BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{made.name}: {made.dump_bytes:,} bytes of database, {made.artifacts:,} artifacts,"
            f" {made.archives:,} archives."
        )
        if made.artifacts_in_object_store:
            self.stdout.write("Artifacts are in the object store; keep its versions or a copy of the bucket.")
        if settings.KEY_DIR.is_dir():
            self.stdout.write(f"Keys are not in it: keep a copy of {settings.KEY_DIR} in another place.")
