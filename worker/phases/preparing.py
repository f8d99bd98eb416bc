"""LEASED, PREPARING, CONTEXT_BUILDING: a sandbox with the repository at its base commit, set up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from worker import __version__
from worker.agents.instruction_files import INSTRUCTION_FILES
from worker.checks.feedback import last_lines
from worker.client.protocol import Artifact
from worker.phases.failures import RunFailure
from worker.sandbox.folder import Checkout, PathOutside, RepositoryUnreachable, Sandbox
from worker.sandbox.process import Result, run_command
from worker.session import RunSession

MODEL = "model"
AGENT_CHECKOUT = "agent"


def start(session: RunSession) -> None:
    session.post("worker_started", worker_version=__version__, isolation=session.config.isolation.level)


def prepare(session: RunSession) -> None:
    open_sandbox(session)


def build_context(session: RunSession) -> None:
    """Set the checkout up, so that a contract that cannot be set up fails before any planning."""
    sandbox = open_sandbox(session)
    checkout = agent_checkout(session, fresh=True)
    paths = sandbox.look_at(checkout.path).paths()
    found = [path for path in INSTRUCTION_FILES if path in set(paths)]
    setup = len(session.resume.contract.setup)
    parts = [
        f"{len(paths)} files at {sandbox.base_commit[:12]}",
        f"instructions in {', '.join(found)}" if found else "no instruction files",
        f"{setup} setup command{'s' if setup != 1 else ''} run" if setup else "no setup",
    ]
    context = {"context_artifact_id": _stored_context(session, checkout).id} if asks_model(session) else {}
    session.post("context_ready", summary="; ".join(parts), **context)


def asks_model(session: RunSession) -> bool:
    """Whether the worker's own loop is the agent. A command agent reads the repository by itself."""
    return session.resume.contract.agent.get("kind") == MODEL


def _stored_context(session: RunSession, checkout: Checkout) -> Artifact:
    # The models' library comes with it: only where a model is asked.
    from worker.phases.contexts import make_context

    text = session.masker.mask_text(make_context(session, checkout))
    return session.upload("context", text.encode("utf-8", "replace"))


def open_sandbox(session: RunSession) -> Sandbox:
    """This session's sandbox, made and reported when there is none. Raises RunFailure."""
    if session.sandbox is None:
        session.boundary()
        try:
            session.sandbox = Sandbox.create(
                work_dir=session.config.work_dir,
                run_id=session.run_id,
                repository=session.resume.repository,
                base_commit=session.base_commit,
                isolation=session.config.isolation,
                limits=session.config.limits,
            )
        except RepositoryUnreachable as error:
            raise RunFailure("REPOSITORY_ACCESS", "clone_failed", str(error), retryable=True) from error
        session.post(
            "sandbox_ready",
            sandbox_id=session.sandbox.id,
            base_commit=session.sandbox.base_commit,
        )
    return session.sandbox


def agent_checkout(session: RunSession, *, fresh: bool) -> Checkout:
    """The agent's checkout, made and set up when there is none, or a fresh one is wanted."""
    sandbox = open_sandbox(session)
    folder = sandbox.root / AGENT_CHECKOUT
    known = session.checkout
    if not fresh and known is not None and known.folder == folder:
        return known
    session.checkout = None
    made = sandbox.checkout(AGENT_CHECKOUT)
    if session.resume.contract.setup:
        set_up(session, made)
        made.exclude_untracked()
    session.checkout = made
    return made


def set_up(session: RunSession, checkout: Checkout) -> None:
    """The contract's setup commands. Raises RunFailure at the first that fails."""
    failed = run_setup(session, checkout)
    if failed is None:
        return
    line, result = failed
    log = session.upload("log", result.output)
    raise RunFailure(
        "INFRASTRUCTURE",
        "setup_timed_out" if result.timed_out else "setup_failed",
        f"setup {line!r} ended with {result.exit_code}\n{last_lines(result.output)}",
        retryable=True,
        evidence=log.id,
    )


def run_setup(session: RunSession, checkout: Checkout, *, secrets: bool = True) -> tuple[str, Result] | None:
    """One setup command after the other; the first that failed, its output masked, or None.

    ``secrets``: with the variables named for setup; never over files that an agent wrote.
    """
    config = session.config
    for line in session.resume.contract.setup:
        session.boundary()
        command = checkout.command(
            ["/bin/sh", "-c", line],
            cwd=working_directory(session, checkout),
            env=checkout.environment(config.variables(config.setup_env) if secrets else None),
            network=True,
            timeout_seconds=session.resume.timeout("command", config.setup_seconds),
            kill_after_seconds=config.kill_after_seconds,
        )
        result = run_command(command, must_stop=session.must_stop_now)
        if result.stopped:
            session.boundary()
        if not result.ok:
            return line, replace(result, output=session.masker.mask(result.output))
    return None


def working_directory(session: RunSession, checkout: Checkout) -> Path:
    """Where the contract's commands run. Raises RunFailure when that is no folder of the tree."""
    try:
        return checkout.directory(session.resume.contract.working_directory)
    except PathOutside as error:
        raise RunFailure(
            "INFRASTRUCTURE", "working_directory_missing", str(error), retryable=False
        ) from error
