from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Print the address of the running database as the app's role, for psql."

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.EMBEDDED_DATABASE:
            settings.EMBEDDED_SERVER.start()  # stays up for the one who asked; `manage.py up` takes it over
        self.stdout.write(settings.DATABASE_URL)
