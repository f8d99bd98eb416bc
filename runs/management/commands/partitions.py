"""`manage.py partitions`: where the events lie, and room for those to come."""

from __future__ import annotations

from typing import Any, Final

from django.core.management.base import BaseCommand
from django.template.defaultfilters import filesizeformat

from agentplatform.database import owner_login
from runs import partitions

#: Whoever calls this by hand waits for as many as there are.
_ALL: Final = 2**62


class Command(BaseCommand):
    help = "Make the partitions of events that will soon be needed, as beat does every hour, and list all."

    def handle(self, *args: Any, **options: Any) -> None:
        with owner_login():  # not bounded in time
            partitions.make_ahead(most=_ALL)
        for one in partitions.partitions():
            begins = f"{one.begins:%Y-%m-%d}" if one.begins else "the beginning"
            size = filesizeformat(one.bytes).replace("\xa0", " ")
            self.stdout.write(f"{one.name}: runs from {begins} until {one.ends:%Y-%m-%d}, {size}")
        if strays := partitions.strays():
            more = " or more" if strays == partitions.MOST_COUNTED else ""
            self.stdout.write(f"In no partition of their time: {strays}{more} events of runs dated later.")
