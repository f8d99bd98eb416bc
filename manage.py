#!/usr/bin/env python
"""The command line. Commands find the embedded database running, where no `DATABASE_URL` names another."""

import contextlib
import os
import sys

# These need no database, or start it themselves.
_WITHOUT_DATABASE = {"check", "collectstatic", "database_url", "generate_docs", "help", "up"}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentplatform.settings")
    from django.conf import settings
    from django.core.management import execute_from_command_line

    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    needs_server = (
        settings.EMBEDDED_DATABASE and command not in _WITHOUT_DATABASE and not command.startswith("-")
    )
    with settings.EMBEDDED_SERVER.running() if needs_server else contextlib.nullcontext():
        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
