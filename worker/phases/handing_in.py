"""Handing in what an attempt made: a patch, or a report. Nothing made is a failure of its own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from worker.checks.feedback import last_lines
from worker.client.errors import Refused
from worker.client.protocol import WIND_DOWN, Artifact, Json
from worker.phases.failures import RunFailure
from worker.sandbox.folder import Checkout
from worker.sandbox.git import GitError
from worker.session import RunSession, Stopped

MOST_SUMMARY = 5_000
LARGEST_REPORT_BYTES = 4 << 20
PATCH_TYPE = "text/x-diff"
_REFUSED_BY = {"verification": "VERIFICATION_FAILED", "judge": "JUDGE_REJECTED"}
UNACCEPTABLE_PATCH = frozenset({"not_a_patch", "unsafe_path", "ambiguous_patch", "too_large"})


def hand_in_patch(session: RunSession, checkout: Checkout, output: bytes, *, summary: str = "") -> None:
    """The difference that is left; `output` explains one that is empty. Raises RunFailure."""
    patch = _patch(checkout)
    if not patch:
        said = last_lines(output)
        raise RunFailure(
            "JUDGE_REJECTED",
            "no_changes",
            "the agent ended without changing anything" + (f"\n{said}" if said else ""),
            retryable=False,
        )
    _check_not_the_same(session, patch)
    artifact = _upload_patch(session, patch)
    session.handed_in_attempt = session.resume.attempt
    saved = {"checkpoint_artifact_id": artifact.id, "base_commit": checkout.sandbox.base_commit}
    made: Json = {"patch_artifact_id": artifact.id, **({"summary": summary} if summary else {})}
    session.post_all([("checkpoint_saved", saved), ("patch_created", made)])


def _check_not_the_same(session: RunSession, patch: bytes) -> None:
    """A patch that was refused is refused again: a deterministic agent would only use up its repairs."""
    refused, feedback = session.resume.patch, session.resume.feedback or {}
    category = _REFUSED_BY.get(str(feedback.get("source")))
    if category and refused and refused.sha256 == hashlib.sha256(patch).hexdigest():
        why = f"the agent made the very patch again that the {feedback['source']} sent back"
        raise RunFailure(category, "same_patch", why, retryable=False)


def _upload_patch(session: RunSession, patch: bytes) -> Artifact:
    try:
        return session.upload("patch", patch, content_type=PATCH_TYPE)
    except Refused as refused:
        if refused.code not in UNACCEPTABLE_PATCH:
            raise
        raise RunFailure("TOOL_FAILED", refused.code, str(refused), retryable=False) from refused


def hand_in_report(session: RunSession, report_file: Path, output: bytes) -> None:
    store_report(session, session.masker.mask(_read_report(report_file)) or output)


def hand_in_text(session: RunSession, checkout: Checkout, last_word: str) -> None:
    """What a model ended with: its words are the report, or the summary of its change."""
    said = session.masker.mask(last_word.encode("utf-8", "replace"))
    if session.resume.contract.wants_analysis:
        store_report(session, said)
    else:
        hand_in_patch(session, checkout, said, summary=said.decode("utf-8", "replace")[:MOST_SUMMARY])


def store_report(session: RunSession, report: bytes) -> None:
    if not report.strip():
        raise RunFailure("JUDGE_REJECTED", "no_changes", "the agent ended without a report", retryable=False)
    artifact = session.upload("analysis_report", report, content_type="text/markdown")
    session.handed_in_attempt = session.resume.attempt
    session.post("report_created", report_artifact_id=artifact.id)


def _read_report(path: Path) -> bytes:
    """The agent's report file; never through a link that it may have put there instead."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(LARGEST_REPORT_BYTES)


def hand_in_what_there_is(session: RunSession, checkout: Checkout) -> None:
    # A patch that came back for repair was handed in already, and is not repaired any more.
    if session.repair_round or session.resume.contract.wants_analysis or not _patch(checkout):
        raise Stopped(WIND_DOWN)
    hand_in_patch(session, checkout, b"")


def _patch(checkout: Checkout) -> bytes:
    try:
        return checkout.diff()
    except GitError as error:
        raise RunFailure("TOOL_FAILED", "patch_unreadable", str(error), retryable=True) from error
