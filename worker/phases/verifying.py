"""PATCH_READY, VERIFYING: the contract's checks on the patch, in a checkout of their own."""

from __future__ import annotations

from dataclasses import replace

from worker.checks.verifier import BaselineCache, Check, Interrupted, checks_of, make_report, run_check
from worker.client.protocol import Artifact, Json, Verifier
from worker.phases.failures import RunFailure
from worker.phases.preparing import open_sandbox, run_setup, set_up, working_directory
from worker.sandbox.folder import Checkout, Sandbox
from worker.sandbox.git import GitError
from worker.session import RunSession

SETUP_CHECK = "setup"


def begin_verification(session: RunSession) -> None:
    session.boundary()
    names = [verifier.name for verifier in checks_of(session.resume)]
    session.post("verification_started", commands=names)


def verify(session: RunSession) -> None:
    session.refresh()
    sandbox = open_sandbox(session)
    patch = _patch_of(session)
    baseline = _baseline(session, sandbox)
    checks = _check_patch(session, sandbox, patch)
    failed = [check for check in checks if not check.passed]
    report = make_report(
        patch_sha256=patch.sha256,
        commands=[_stored(session, check) for check in checks],
        baseline=baseline,
        failed=failed,
    )
    artifact = session.upload_json("verification_report", report)
    verdict = "verification_failed_retryable" if failed else "verification_passed"
    session.post(verdict, verification_report_id=artifact.id)


def _patch_of(session: RunSession) -> Artifact:
    if session.resume.patch is None:
        raise RunFailure("INFRASTRUCTURE", "patch_missing", "there is no patch to verify", retryable=True)
    return session.resume.patch


def _baseline(session: RunSession, sandbox: Sandbox) -> list[Json]:
    """Each check on the untouched base: as known, or run once now."""
    cache = BaselineCache(session.config.work_dir / "baselines", session.resume, sandbox.base_commit)
    entries: list[Json] = []
    checkout: Checkout | None = None
    for verifier in checks_of(session.resume):
        entry = cache.get(verifier)
        if entry is None:
            if checkout is None:
                checkout = sandbox.checkout("baseline")
                set_up(session, checkout)
            entry = cache.put(_run(session, checkout, verifier))
        entries.append(entry)
    if checkout is not None:
        checkout.remove()
    return entries


def _check_patch(session: RunSession, sandbox: Sandbox, patch: Artifact) -> list[Check]:
    checkout = sandbox.checkout("verify")
    if session.config.setup_env:
        # What needs secrets is done while nothing of the agent's is there yet.
        set_up(session, checkout)
        sandbox.look_at(checkout.path).write_files()
    try:
        checkout.apply(session.leased.download(patch.id))
    except GitError as error:
        raise RunFailure(
            "VERIFICATION_FAILED", "patch_does_not_apply", str(error), retryable=False
        ) from error
    failed_setup = run_setup(session, checkout, secrets=False)
    if failed_setup:
        # It worked on the base: the patch broke it, and the agent is told like of any check.
        line, result = failed_setup
        verifier = Verifier(SETUP_CHECK, line)
        return [Check(verifier, result.exit_code, result.duration_ms, result.output, result.timed_out)]
    checks = [_run(session, checkout, verifier) for verifier in checks_of(session.resume)]
    checkout.remove()
    return checks


def _run(session: RunSession, checkout: Checkout, verifier: Verifier) -> Check:
    session.boundary()
    try:
        check = run_check(
            verifier,
            checkout=checkout,
            directory=working_directory(session, checkout),
            kill_after_seconds=session.config.kill_after_seconds,
            must_stop=session.must_stop_now,
        )
    except Interrupted:
        session.boundary()
        raise
    return replace(check, output=session.masker.mask(check.output))


def _stored(session: RunSession, check: Check) -> Json:
    return check.entry(session.upload("output", check.output).id)
