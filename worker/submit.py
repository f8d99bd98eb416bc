"""`python -m worker submit`: a task from a file, for whoever asks from a terminal or a pipeline."""

from __future__ import annotations

import json
import sys
import time
import tomllib
import uuid
from pathlib import Path
from typing import Any

import click

from worker.client.errors import Refused, WorkerError
from worker.client.plane import ControlPlane, read_token
from worker.client.transport import json_object

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
POLL_SECONDS = 2.0


@click.command(name="submit")
@click.argument("contract", type=_FILE)
@click.option("--url", required=True, help="Address of the control plane.")
@click.option("--token-file", required=True, type=_FILE, help="File that holds a person's token alone.")
@click.option("--draft", is_flag=True, help="Keep it as a draft; nothing runs.")
@click.option("--key", default="", help="Idempotency key: one makes one task, however often it is sent.")
@click.option("--wait", is_flag=True, help="Stay until the task has ended; 1 unless it completed.")
def main(contract: Path, url: str, token_file: Path, key: str, draft: bool, wait: bool) -> None:  # noqa: FBT001, PLR0917  click passes by name
    """Make a task from a contract in JSON or TOML, and print its id, state and what it waits for.

    Ends with 1 where the contract is refused or rejected; every reason is printed.
    """
    body = {**read_contract(contract), "submit": not draft}
    try:
        plane = ControlPlane(url=url, token=read_token(token_file))
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    try:
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        task = json_object(plane.send("POST", "tasks", json_body=body, headers=headers))
        tell(task)
        while wait and not draft and not task["finished_at"]:
            time.sleep(POLL_SECONDS)
            before, task = task, json_object(plane.send("GET", f"tasks/{task['id']}"))
            if _said(task) != _said(before):
                tell(task)
    except Refused as refused:
        raise click.ClickException("\n".join(_reasons(refused))) from refused
    except WorkerError as error:
        raise click.ClickException(str(error)) from error
    finally:
        plane.close()
    if task["status"] == "REJECTED" or (wait and not draft and task["status"] != "COMPLETED"):
        sys.exit(1)


def read_contract(path: Path) -> dict[str, Any]:
    """The file's fields; `ClickException` says where it cannot be read."""
    try:
        data = path.read_text(encoding="utf-8-sig")
        found = json.loads(data) if data.lstrip().startswith("{") else tomllib.loads(data)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} is neither JSON nor TOML: {error}") from error
    return dict(found)


def tell(task: dict[str, Any]) -> None:
    """One line on what it is now, and a line for each reason why it was rejected."""
    click.echo(_said(task))
    for reason in task["rejection_reasons"]:
        click.echo(f"  {reason}")


def _said(task: dict[str, Any]) -> str:
    waits = task.get("waiting_for") or {}
    return "  ".join(filter(None, (task["id"], task["display"]["title"], waits.get("sentence"))))


def _reasons(refused: Refused) -> list[str]:
    """The refusal, and of a form's errors each field on a line of its own."""
    errors = refused.problem.get("errors") or {}
    return [str(refused), *(f"  {name}: {'; '.join(texts)}" for name, texts in errors.items())]
