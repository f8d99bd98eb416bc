"""`manage.py generate_docs`: the reference in `docs/`, written from the code."""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agentplatform import documents


class Command(BaseCommand):
    help = "Write docs/reference/ and docs/openapi.yaml from the code; needs no database."
    requires_system_checks = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--check",
            action="store_true",
            help="write nothing; print what differs and exit with 1 if anything does",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        docs = settings.BASE_DIR / "docs"
        if not options["check"]:
            documents.write(docs)
            return
        if found := documents.differences(docs):
            self.stdout.write(found)
            raise CommandError("The generated documents differ from the code: run manage.py generate_docs.")
        self.stdout.write("The generated documents are what the code says.")
