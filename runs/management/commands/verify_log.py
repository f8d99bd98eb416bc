"""`manage.py verify_log`: whether anybody changed the log past the product."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from runs import archives, rebuild
from runs.management.arguments import refusals_as_errors
from runs.models import EventArchive
from runs.rebuild import Break


class Command(BaseCommand):
    help = "Check the hash chain and its keyed head, of all logs or of one; status 1 if one does not hold."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--file", type=Path, help="not the database's logs, but those of this file of archive_events"
        )
        parser.add_argument("--run", metavar="ID", default="", help="one run or task alone")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals_as_errors():
            found = list(self._breaks(options["file"], options["run"]))
        for place in found:
            self.stdout.write(str(place))
        if found:
            sys.exit(1)
        archived = EventArchive.objects.filter(removed_at__isnull=False).count()
        beside = (
            f" Those of {archived} archives lie in files: --file." if archived and not options["file"] else ""
        )
        self.stdout.write(f"Every chain holds.{beside}")

    def _breaks(self, file: Path | None, run_id: str) -> Iterator[Break]:
        if file is None:
            return rebuild.breaks(run_id)
        if not file.is_file():
            raise CommandError(f"There is no file {file}.")
        return archives.verify_archive(file, run_id=run_id)
