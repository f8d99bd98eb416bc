"""`manage.py create_person`: somebody who signs in, with roles."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from runs.domain.vocabulary import PersonRole
from runs.management.arguments import named_repositories, refusals_as_errors
from runs.service import COMMAND_LINE, person_create, token_create


class Command(BaseCommand):
    help = "Make a person. With --token a personal API token is printed, alone on standard output."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        roles = [role.value for role in PersonRole]
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
            help="limit the roles to this repository; may be repeated",
        )
        parser.add_argument(
            "--password-stdin", action="store_true", help="read the password's line from standard input"
        )
        parser.add_argument("--token", action="store_true", help="print a personal API token")

    def handle(self, *args: Any, **options: Any) -> None:
        password = sys.stdin.readline().rstrip("\r\n") if options["password_stdin"] else None
        repositories = named_repositories(options["repositories"])
        with refusals_as_errors(), transaction.atomic():
            person = person_create(
                name=options["name"],
                roles=options["roles"],
                repositories=repositories,
                password=password,
                by=COMMAND_LINE,
            )
            secret = ""
            if options["token"]:
                secret = token_create(by=COMMAND_LINE, person=person, name="command line")[1]
        self.stdout.write(secret or person.pk)
