"""`manage.py archive_events`: logs of runs that ended long ago, from the database to files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from agentplatform.database import owner_login
from runs import archives
from runs.partitions import Partition


class Command(BaseCommand):
    help = (
        "Write the events of partitions whose runs all ended long ago to files, verify each file, and remove "
        "the partition; with the owner's login. Status 1 if one stays that is old enough."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--days", type=int, required=True, help="so long ago, at least")
        parser.add_argument(
            "--folder", type=Path, help="where the files go; else archives/ of the data folder"
        )
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def handle(self, *args: Any, **options: Any) -> None:
        options["folder"] = options["folder"] or settings.ARCHIVE_DIR
        with owner_login():
            stay = [not self._archive(one, options) for one in archives.due(days=options["days"])]
        if not stay:
            self.stdout.write("No partition is old enough.")
        if any(stay):
            sys.exit(1)

    def _archive(self, partition: Partition, options: dict[str, Any]) -> bool:
        if waiting := archives.waiting_for(partition, days=options["days"]):
            self.stdout.write(f"{partition.name} stays: {'; '.join(map(str, waiting))}")
            return False
        if options["dry_run"]:
            self.stdout.write(f"{partition.name} would go to {options['folder']}")
            return True
        try:
            row = archives.archive_partition(partition, folder=options["folder"])
        except archives.NotComplete as error:
            self.stderr.write(f"{partition.name} stays, nothing was removed: {error}")
            return False
        self.stdout.write(f"{partition.name}: {row.events} events of {row.runs} runs are in {row.file}")
        return True
