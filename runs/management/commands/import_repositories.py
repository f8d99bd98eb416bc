"""`manage.py import_repositories`: many repositories at once, from a forge or from a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from runs.credentials import CredentialsWrong
from runs.domain.import_file import read_import_file
from runs.domain.importing import Plan
from runs.forges.rest import ForgeFailed
from runs.importing import import_organisation
from runs.management.arguments import refusals_as_errors
from runs.models import Organisation, Policy
from runs.service import COMMAND_LINE, organisation_keep, repositories_import


class Command(BaseCommand):
    help = (
        "Bring in the repositories of a forge's organisation or group, or of a CSV or JSON file; known ones "
        "are brought into step: name, address, base branch, archived. Doing it twice changes nothing. "
        "With neither file nor organisation, all organisations that are kept in step are looked at now."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "file", nargs="?", type=Path, metavar="FILE.csv|FILE.json",
            help="columns name and url; optional provider, id, base_branch, archived",
        )  # fmt: skip
        parser.add_argument("--organisation", metavar="PATH", help="an organisation, or a group's path")
        parser.add_argument("--provider", choices=Organisation.FORGES, default="github")
        parser.add_argument("--host", default="", help="of a forge of your own, such as git.example.org")
        parser.add_argument("--prefix", default="", help="put before each name")
        parser.add_argument("--only", default="*", metavar="PATTERN", help="names to bring in")
        parser.add_argument(
            "--inherits",
            default=Policy.PLATFORM,
            metavar="POLICY",
            help="what the policies of new repositories inherit from (default: platform)",
        )
        parser.add_argument(
            "--keep-in-step", action="store_true", help="look at the organisation again each hour"
        )
        parser.add_argument("--dry-run", action="store_true", help="say what would change, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["file"] and options["organisation"]:
            raise CommandError("Name a file or an organisation, not both.")
        with refusals_as_errors():
            try:
                self._import(options)
            except (ForgeFailed, CredentialsWrong) as error:
                raise CommandError(f"{error}\nNothing was changed.") from error

    def _import(self, options: dict[str, Any]) -> None:
        dry = options["dry_run"]
        if options["file"]:
            self._say(_of_file(options["file"], options["inherits"], dry_run=dry), dry=dry)
            return
        organisations = list(Organisation.objects.filter(kept=True).select_related("inherits"))
        if options["organisation"]:
            organisations = [_organisation(options)]
        if not organisations:
            raise CommandError("No organisation is kept in step; name one, or a file.")
        for organisation in organisations:
            self.stdout.write(f"{organisation}:")
            self._say(import_organisation(organisation, by=COMMAND_LINE, dry_run=dry), dry=dry)

    def _say(self, plan: Plan, *, dry: bool) -> None:
        for one in plan.new:
            self.stdout.write(f"  new      {one.name}{', archived' if one.archived else ''}")
        for change in plan.changed:
            self.stdout.write(f"  changed  {change.in_words}")
        for name, why in plan.refused:
            self.stdout.write(f"  refused  {name}: {why}")
        self.stdout.write(f"{plan.summary}{' Nothing was written.' if dry else ''}")


def _of_file(path: Path, inherits: str, *, dry_run: bool) -> Plan:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
    listed = read_import_file(data, is_json=path.suffix.lower() == ".json")
    return repositories_import(
        listed=listed, by=COMMAND_LINE, source=path.name, inherits=inherits, dry_run=dry_run
    )


def _organisation(options: dict[str, Any]) -> Organisation:
    """The one that is named: kept from now on, or for this time alone."""
    above = Policy.objects.filter(name=options["inherits"]).first()
    if above is None and options["inherits"] != Policy.PLATFORM:
        raise CommandError(f"There is no policy {options['inherits']}.")
    wanted = Organisation(
        provider=options["provider"],
        host=options["host"].strip().lower(),
        path=options["organisation"].strip("/"),
        prefix=options["prefix"],
        only=options["only"],
        inherits=above,
    )
    try:
        wanted.clean_fields()
    except ValidationError as error:
        raise CommandError("; ".join(f"{n}: {' '.join(t)}" for n, t in error.message_dict.items())) from error
    keep = options["keep_in_step"] and not options["dry_run"]
    return organisation_keep(organisation=wanted, by=COMMAND_LINE) if keep else wanted
