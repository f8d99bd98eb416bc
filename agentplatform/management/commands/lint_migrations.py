"""`manage.py lint_migrations`: whether the version before can go on serving during a migration, and after."""

from __future__ import annotations

import sys
from typing import Any, Final

from django.core.management.base import BaseCommand
from django.db.migrations.loader import MigrationLoader

from agentplatform.migration_lint import note_of, problems

_APPS: Final = ("runs", "approvals")


class Command(BaseCommand):
    help = (
        "Check the product's migrations for locks and for what the version before could not live with, and "
        "print what to know of each. Asks no database."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        loader = MigrationLoader(None)
        ours = [loader.disk_migrations[key] for key in sorted(loader.disk_migrations) if key[0] in _APPS]
        for migration in ours:
            if note := note_of(migration):
                self.stdout.write(f"{migration.app_label}.{migration.name}: {note}")
        found = list(problems(ours))
        for problem in found:
            self.stderr.write(problem)
        if found:
            sys.exit(1)
