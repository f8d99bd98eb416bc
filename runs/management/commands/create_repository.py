"""`manage.py create_repository`: a repository that tasks may change."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from runs.management.arguments import policy_values, refusals_as_errors
from runs.models import Policy, Repository
from runs.service import COMMAND_LINE, repository_create


class Command(BaseCommand):
    help = "Make a repository, with a policy of its own. Its id is printed."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--url", required=True, metavar="GIT_URL", help="what git clones")
        parser.add_argument("--base-branch", default="main")
        parser.add_argument("--provider", default="git", choices=Repository.PROVIDERS)
        parser.add_argument("--policy", type=Path, metavar="FILE.json", help="the repository's own rules")
        parser.add_argument(
            "--inherits",
            default=Policy.PLATFORM,
            metavar="POLICY",
            help="the policy above its own (default: platform)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals_as_errors():
            repository = repository_create(
                name=options["name"],
                url=options["url"],
                base_branch=options["base_branch"],
                provider=options["provider"],
                policy=policy_values(options["policy"]) if options["policy"] else None,
                inherits=options["inherits"],
                by=COMMAND_LINE,
            )
        self.stdout.write(repository.pk)
