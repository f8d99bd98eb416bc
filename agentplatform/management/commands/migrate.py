"""Django's `migrate` with the owner's login: by hand, from `up` and from the tests alike."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from agentplatform.database import owner_login


class Command(migrate.Command):
    help = "Apply migrations as the owner of the tables, then grant the app's role what it needs."

    def execute(self, *args: Any, **options: Any) -> str | None:
        """From the first check on: a pooler would keep a session begun before the app's role was bounded."""
        with owner_login(options["database"]):
            done: str | None = super().execute(*args, **options)
        return done
