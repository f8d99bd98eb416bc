"""`python -m worker`: the reference worker as a process."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType

import click

from worker import __version__
from worker.claiming import Worker
from worker.client.errors import Refused
from worker.client.plane import ControlPlane, read_token
from worker.config import ROLES, WorkerConfig
from worker.conformance.command import conformance
from worker.drain import Drain

DEFAULT_WORK_DIR = Path(os.environ.get("AGENTPLATFORM_DATA_DIR", "var")) / "sandboxes"


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
) -> None:
    """Claim runs from the control plane and work on them, one at a time.

    SIGTERM lets the run in hand be given back at its next boundary; a second one ends at once.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s worker %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        token = read_token(token_file)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    config = WorkerConfig(
        work_dir=work_dir.resolve(),
        roles=roles,
        labels=labels,
        wait_seconds=0 if once else wait_seconds,
        setup_env=setup_env,
        agent_env=agent_env,
        drain_seconds=drain_seconds,
    )
    drain = _drain_on_signals(drain_seconds)
    plane = ControlPlane(url=url, token=token)
    try:
        Worker(config=config, plane=plane, drain=drain).run(once=once)
    except Refused as refused:
        raise click.ClickException(f"the control plane refused this worker: {refused}") from refused
    finally:
        plane.close()


def _drain_on_signals(grace_seconds: float) -> Drain:
    drain = Drain(grace_seconds=grace_seconds)

    def handle(number: int, frame: FrameType | None) -> None:
        drain.ask()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return drain


def run(words: list[str]) -> None:
    """The worker itself, or `conformance` for the authors of others."""
    if words[:1] == ["conformance"]:
        conformance(words[1:], prog_name="python -m worker conformance")
    else:
        main(words, prog_name="python -m worker")


if __name__ == "__main__":
    run(sys.argv[1:])
