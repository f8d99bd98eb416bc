"""`manage.py hold`: stop claims and pull requests, from the command line."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agentplatform.clock import database_now
from runs import service
from runs.domain.facts import stamp
from runs.domain.holds import SET_BY_PEOPLE, HoldScope
from runs.management.arguments import refusals_as_errors
from runs.models import Hold, Repository
from runs.selectors.spending import day_spending


class Command(BaseCommand):
    help = (
        "Set, lift or list holds: what they cover is not claimed and opens no pull request. "
        "The list has the spend caps that are reached, too."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("action", choices=("set", "lift", "list"))
        parser.add_argument("hold", nargs="?", default="", help="id of the hold to lift")
        parser.add_argument("--scope", choices=list(SET_BY_PEOPLE), default=HoldScope.PLATFORM.value)
        parser.add_argument("--value", default="", help="the repository, agent kind or label")
        parser.add_argument("--reason", default="", help="shown at the top of every page")
        parser.add_argument("--minutes", type=int, help="how long; without it, until somebody lifts it")
        parser.add_argument("--cancel-running", action="store_true", help="also cancel what runs")
        parser.add_argument("--by", default="command line", metavar="NAME", help="who is named as its owner")

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals_as_errors():
            {"set": self._set, "lift": self._lift, "list": self._list}[options["action"]](options)

    def _set(self, options: dict[str, Any]) -> None:
        minutes = options["minutes"]
        until = None if minutes is None else database_now() + timedelta(minutes=minutes)
        hold = service.hold_set(
            scope=options["scope"],
            value=options["value"],
            reason=options["reason"],
            by=options["by"],
            expires_at=until,
            cancel_running=options["cancel_running"],
        )
        self.stdout.write(hold.id)

    def _lift(self, options: dict[str, Any]) -> None:
        if not options["hold"]:
            raise CommandError("Name the hold to lift; `hold list` shows them.")
        self.stdout.write(service.hold_lift(hold_id=options["hold"], by=options["by"]).id)

    def _list(self, options: dict[str, Any]) -> None:
        now = stamp(database_now())
        for row in Hold.objects.in_force():
            self.stdout.write(f"{row.pk}  {row.as_fact().sentence(now=now)}")
        for cap in day_spending(Repository.objects.all()):
            if cap.is_reached:
                self.stdout.write(f"spend cap  {cap.sentence}")
