"""`manage.py relay`: domain events to their consumers, as beat does it, and without Celery."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand

from agentplatform import stopping
from runs import outbox


class Command(BaseCommand):
    help = "Deliver the domain events that are due, and mail, chat and webhooks, once; print how many."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="the default: beat repeats it")

    def handle(self, *args: Any, **options: Any) -> None:
        with stopping.on_signal():
            relayed = outbox.relay(), outbox.send_out()
        for done in relayed:
            for word in ("delivered", "failed", "parked", "lost"):
                for consumer, count in sorted(getattr(done, word).items()):
                    self.stdout.write(f"{consumer}: {count} {word}")
