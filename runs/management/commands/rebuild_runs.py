"""`manage.py rebuild_runs`: rows against their log."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from runs import rebuild
from runs.domain.errors import NotFound


class Command(BaseCommand):
    help = "Fold every log again and rewrite the rows that differ; with --check only say which do."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing; status 1 if any differs")
        parser.add_argument(
            "--whole", action="store_true", help="with --check: fold from the first event, past checkpoints"
        )
        parser.add_argument("--run", metavar="ID", help="one run or task alone")

    def handle(self, *args: Any, **options: Any) -> None:
        streams = [options["run"]] if options["run"] else rebuild.all_streams()
        check = partial(rebuild.differences, whole=options["whole"])
        act = check if options["check"] else rebuild.rebuild
        found = refused = 0
        for stream_id in streams:
            try:
                differences = act(stream_id)
            except NotFound as error:
                if not options["run"]:
                    continue  # a draft that was deleted meanwhile
                raise CommandError(f"There is no run or task {stream_id}.") from error
            except DatabaseError as error:
                refused += 1
                self.stderr.write(f"{stream_id} was not rewritten: {str(error).splitlines()[0]}")
                continue
            except rebuild.Unreadable as unreadable:
                refused += 1
                self.stderr.write(f"{unreadable}. `verify_log --run {stream_id}` says where it was changed.")
                continue
            found += len(differences)
            for difference in differences:
                self.stdout.write(str(difference))
        self.stdout.write("No difference." if not found else f"{found} differences.")
        if refused or (found and options["check"]):
            sys.exit(1)
