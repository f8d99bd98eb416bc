"""`manage.py find_reverts`: merged changes that were taken back, as beat finds them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from runs.pull_requests.history import find_reverts


class Command(BaseCommand):
    help = "Search the base branches of merged pull requests that are due, and print which were reverted."

    def handle(self, *args: Any, **options: Any) -> None:
        for found in find_reverts():
            self.stdout.write(f"{found.pull_request_id}: reverted by {found.by}")
