"""`manage.py create_worker`: a machine's account and its token."""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from agentplatform.clock import database_now
from runs.domain.vocabulary import MACHINE_ROLES
from runs.management.arguments import named_person, named_repositories, refusals_as_errors
from runs.service import COMMAND_LINE, token_create, worker_create


class Command(BaseCommand):
    help = "Make a worker account. Its token is printed, alone on standard output, and never again."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        roles = [role.value for role in MACHINE_ROLES]
        parser.add_argument("name")
        parser.add_argument(
            "--role", action="append", required=True, choices=roles, dest="roles", help="may be repeated"
        )
        parser.add_argument(
            "--repository",
            action="append",
            default=[],
            dest="repositories",
            metavar="R",
            help="limit it to this repository; may be repeated",
        )
        parser.add_argument(
            "--label", action="append", default=[], dest="labels", metavar="L", help="what it can do"
        )
        parser.add_argument("--expires-days", type=int, metavar="N", help="the token ends after N days")
        parser.add_argument("--owner", metavar="PERSON", help="who answers for it; never its approver")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["expires_days"]
        if days is not None and days < 1:
            raise CommandError("--expires-days must be at least 1.")
        owner = named_person(options["owner"]) if options["owner"] else None
        repositories = named_repositories(options["repositories"])
        with refusals_as_errors(), transaction.atomic():
            worker = worker_create(
                name=options["name"],
                roles=options["roles"],
                repositories=repositories,
                labels=options["labels"],
                owner=owner,
                by=COMMAND_LINE,
            )
            ends = database_now() + timedelta(days=days) if days else None
            secret = token_create(by=COMMAND_LINE, worker=worker, name="command line", expires_at=ends)[1]
        self.stdout.write(secret)
