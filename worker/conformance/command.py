"""`python -m worker conformance`."""

from __future__ import annotations

import click

from worker.conformance.running import Verdict, run_cases


@click.command(name="conformance")
@click.option(
    "--command",
    required=True,
    help="Shell line that starts the worker under trial, for one run. {url} and {token_file} are filled in;"
    " AGENTPLATFORM_URL and AGENTPLATFORM_TOKEN_FILE hold the same.",
)
@click.option("--only", default="", help="Only cases whose name contains this.")
@click.option(
    "--seconds", type=float, default=60.0, show_default=True, help="How long the worker may take for a case."
)
def conformance(command: str, only: str, seconds: float) -> None:
    """Play the control plane's hard cases against a worker and say which promise broke.

    The worker must know the agent kind `script` and act in all four roles. Exit status 1 where one broke.
    """
    broken = 0
    for verdict in run_cases(command, only=only, seconds=seconds):
        click.echo(_line(verdict))
        broken += bool(verdict.broken)
    if broken:
        raise click.ClickException(f"{broken} promise{'s' if broken > 1 else ''} broken")
    click.echo("Every promise held.")


def _line(verdict: Verdict) -> str:
    if not verdict.broken:
        return f"ok      {verdict.case.name}: {verdict.case.promise}"
    said = "".join(f"\n          | {line}" for line in verdict.output.splitlines()[-8:])
    why = "".join(f"\n        {reason}" for reason in verdict.broken)
    return f"BROKEN  {verdict.case.name}: {verdict.case.promise}{why}{said}"
