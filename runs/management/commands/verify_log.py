"""`manage.py verify_log`: whether anybody changed the log past the product."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand

from runs import rebuild
from runs.management.arguments import refusals_as_errors


class Command(BaseCommand):
    help = "Check the hash chain and its keyed head, of all logs or of one; status 1 if one does not hold."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--run", metavar="ID", default="", help="one run or task alone")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals_as_errors():
            found = list(rebuild.breaks(options["run"]))
        for place in found:
            self.stdout.write(str(place))
        if found:
            sys.exit(1)
        self.stdout.write("Every chain holds.")
