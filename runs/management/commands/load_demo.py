"""`manage.py load_demo`: demonstration data into an empty database."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runs.demo.load import accounts_file, demo_load
from runs.management.arguments import refusals_as_errors


class Command(BaseCommand):
    help = "Fill an empty database with people, a repository and requests; print the accounts."

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals_as_errors():
            accounts = demo_load()
        self.stdout.write(accounts)
        self.stdout.write(f"Kept in {accounts_file()}.")
