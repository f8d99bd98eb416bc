"""`python -m worker`: the reference worker as a process."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from worker import __version__, tracing
from worker.client.errors import Refused
from worker.client.plane import read_token
from worker.config import ROLES, WorkerConfig
from worker.conformance.command import conformance
from worker.sandbox.isolation import CHOICES, IsolationUnavailable, find_isolation
from worker.sandbox.process import Limits
from worker.serving import serve
from worker.submit import main as submit

F = TypeVar("F", bound=Callable[..., None])
DEFAULT_WORK_DIR = Path(os.environ.get("AGENTPLATFORM_DATA_DIR", "var")) / "sandboxes"


def _number(name: str, least: int, most: int, usual: int, help_: str) -> Callable[[F], F]:
    return click.option(name, type=click.IntRange(least, most), default=usual, show_default=True, help=help_)


@click.command(name="worker")
@click.option("--url", required=True, help="Address of the control plane.")
@click.option(
    "--token-file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File that holds the worker account's token alone.",
)
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="Only work of this role.")
@click.option("--label", "labels", multiple=True, help="What this worker offers to tasks' needs.")
@click.option("--once", is_flag=True, help="Work on one run at most, then end.")
@click.option(
    "--work-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_WORK_DIR,
    show_default=True,
    help="Folder for mirrors, sandboxes and baselines.",
)
@click.option(
    "--wait-seconds",
    type=click.IntRange(0, 30),
    default=20,
    show_default=True,
    help="How long one claim waits for work.",
)
@click.option("--setup-env", multiple=True, help="Variable of this process that setup may see.")
@click.option("--agent-env", multiple=True, help="Variable of this process that agents may see.")
@click.option(
    "--drain-seconds",
    type=float,
    default=30.0,
    show_default=True,
    help="How long a running command may go on after SIGTERM.",
)
@click.option("--model", default="", help="Model of the agent kind `model` where a task names none.")
@click.option("--judge-model", default="", help="Model that judges beside the rules; none is asked without.")
@click.option(
    "--isolation",
    type=click.Choice(CHOICES),
    default="auto",
    show_default=True,
    help="Walls around commands: the best that this machine allows, none, or exactly these.",
)
@click.option(
    "--hide",
    "hide",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File or folder that no command may see, behind walls. The worker's own are hidden anyway.",
)
@_number("--memory-mb", 64, 1 << 20, 8192, "Memory that one command may hold.")
@_number("--disk-mb", 1, 1 << 24, 10240, "Disk that one sandbox may fill.")
@_number("--processes", 8, 1 << 20, 1024, "Processes that one command may have at a time.")
@_number("--concurrency", 1, 64, 1, "Runs to hold at a time.")
@_number("--metrics-port", 0, 65535, 0, "Port of 127.0.0.1 for /metrics and /healthz; 0 for none.")
@click.version_option(__version__)
def main(  # noqa: PLR0917 - click passes by name
    url: str,
    token_file: Path,
    roles: tuple[str, ...],
    labels: tuple[str, ...],
    once: bool,  # noqa: FBT001
    work_dir: Path,
    wait_seconds: int,
    setup_env: tuple[str, ...],
    agent_env: tuple[str, ...],
    drain_seconds: float,
    model: str,
    judge_model: str,
    isolation: str,
    hide: tuple[Path, ...],
    memory_mb: int,
    disk_mb: int,
    processes: int,
    concurrency: int,
    metrics_port: int,
) -> None:
    """Claim runs from the control plane and work on them, as many at a time as `--concurrency` says.

    SIGTERM lets the run in hand be given back at its next boundary; a second one ends at once.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s worker %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        token = read_token(token_file)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    try:
        walls = find_isolation(isolation, private=[work_dir, token_file, *hide])
    except IsolationUnavailable as error:
        raise click.ClickException(str(error)) from error
    config = WorkerConfig(
        work_dir=work_dir.resolve(),
        roles=roles,
        labels=labels,
        wait_seconds=0 if once else wait_seconds,
        setup_env=setup_env,
        agent_env=agent_env,
        drain_seconds=drain_seconds,
        model=model,
        judge_model=judge_model,
        isolation=walls,
        limits=Limits(processes=processes, memory_bytes=memory_mb << 20, disk_bytes=disk_mb << 20),
    )
    try:
        serve(config, url=url, token=token, once=once, concurrency=concurrency, metrics_port=metrics_port)
    except Refused as refused:
        raise click.ClickException(f"the control plane refused this worker: {refused}") from refused
    except tracing.NotInstalled as missing:
        raise click.ClickException(str(missing)) from missing


def run(words: list[str]) -> None:
    """The worker itself; `conformance` for the authors of others, `submit` for whoever asks for work."""
    command = {"conformance": conformance, "submit": submit}.get("".join(words[:1]))
    if command:
        command(words[1:], prog_name=f"python -m worker {words[0]}")
    else:
        main(words, prog_name="python -m worker")


if __name__ == "__main__":
    run(sys.argv[1:])
