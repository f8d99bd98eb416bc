"""`manage.py demo_history`: runs of the last weeks for the demonstration, for charts and lists."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from approvals.history.load import history_post, history_size
from runs.management.arguments import refusals_as_errors

MOST_DAYS = 365


class Command(BaseCommand):
    help = "Give the demonstration a past: tasks and runs of the last days, posted through the service."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, default=60, help="How many days back (60).")

    def handle(self, *args: Any, **options: Any) -> None:
        days = max(1, min(options["days"], MOST_DAYS))
        total, done = history_size(days=days), 0
        with refusals_as_errors():
            for done in history_post(days=days):
                if done % 10 == 0 and self.stdout.isatty():
                    self.stdout.write(f"\r{done} of {total} tasks", ending="")
                    self.stdout.flush()
        self.stdout.write(f"\r{done} tasks of the last {days} days are there.")
