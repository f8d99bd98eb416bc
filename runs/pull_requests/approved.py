"""What goes out for a run: exactly the approved patch, looked at once more."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from email.utils import parseaddr

from django.conf import settings

from runs.artifacts import artifact_read, mirror_of
from runs.domain import guards
from runs.domain.facts import Json, moment
from runs.domain.patch import AmbiguousPatch, NotAPatch, UnsafePath
from runs.domain.patch.reading import patch_facts
from runs.domain.state import RunState
from runs.domain.vocabulary import FailureCategory
from runs.mirrors import GitFailed, GitReading
from runs.models import Artifact, Run
from runs.pull_requests.base import Author, Change, Proposal
from runs.pull_requests.text import MAX_SUBJECT, branch_name, commit_message, one_line
from runs.selectors.policies import effective_policies
from runs.vault import VaultAwayError


class Denied(Exception):  # noqa: N818  a verdict, not an error
    """Nothing goes out: ``category`` of the failure, ``reason`` as its slug."""

    def __init__(self, category: FailureCategory, reason: str, summary: str) -> None:
        self.category, self.reason = category, reason
        super().__init__(summary)


@dataclass(frozen=True, slots=True)
class Approved:
    """The approved patch: its record, and git's reading of its bytes just now."""

    artifact: Artifact
    patch: bytes
    reading: GitReading


def load_approved(run: Run, state: RunState) -> Approved:
    """The patch that was let out, read again. Raises ``Denied``, and ``GitFailed``."""
    artifact = Artifact.objects.get(run=run, pk=(state.patch or {})["id"])
    patch = _bytes(artifact)
    mirror = mirror_of(run.repository)
    mirror.ensure(state.base_commit)
    try:
        return Approved(artifact, patch, mirror.read(patch, state.base_commit))
    except (NotAPatch, UnsafePath, AmbiguousPatch) as error:
        raise Denied(
            FailureCategory.POLICY_DENIED, "paths_differ", f"Git reads it otherwise: {error}"
        ) from error


def _bytes(artifact: Artifact) -> bytes:
    missing = (FailureCategory.INFRASTRUCTURE, "artifact_missing")
    try:
        patch = artifact_read(artifact)
    except VaultAwayError as error:
        raise GitFailed(str(error)) from error  # it passes, as a repository that is away does
    except OSError as error:
        raise Denied(*missing, f"The patch's bytes are gone: {error.strerror or error}.") from error
    if hashlib.sha256(patch).hexdigest() != artifact.sha256:
        raise Denied(*missing, "The patch's bytes are not the ones that were approved.")
    return patch


def change_of(run: Run, state: RunState, approved: Approved, *, body: str = "") -> Change:
    """The commit to be: the same at every try, so that a repeated push finds itself."""
    policy = effective_policies(repository_ids=[run.repository_id])[run.repository_id].values
    trailers = {"Requested-by": run.task.created_by.get_username(), "Agent-Run": run.pk}
    return Change(
        base_commit=state.base_commit,
        patch=approved.patch,
        approved_paths=approved.reading.paths,
        branch=branch_name(run.pk, run.task.title),
        message=commit_message(run.task.title, state.output_summary, trailers),
        author=Author("Agent Platform", parseaddr(settings.DEFAULT_FROM_EMAIL)[1]),
        timestamp=moment(state.status_since),
        expected_tree=approved.artifact.facts.get("tree") or None,
        base_branch=run.task.contract["base_branch"],
        proposal=Proposal(
            title=one_line(run.task.title)[:MAX_SUBJECT],
            body=body,
            operation=run.pk,
            draft=policy["pull_request_draft"],
            labels=tuple(policy["pull_request_labels"]),
        ),
    )


def check_again(run: Run, state: RunState, approved: Approved) -> None:
    """The guards of the patch once more: on the tree that git makes now, by the policy of today.

    Raises ``Denied`` where it touches other paths than were seen, or where a guard has come to fail.
    """
    reading = _facts(approved.reading)
    seen, real = guards.paths_of(approved.artifact.facts), guards.paths_of(reading)
    if other := set(seen) ^ set(real):
        raise Denied(FailureCategory.POLICY_DENIED, "paths_differ", f"Not what was approved: {min(other)}.")
    policy = effective_policies(repository_ids=[run.repository_id])[run.repository_id]
    evidence = guards.Evidence(state, run.task.contract, policy.values, reading)
    known = {guard["name"] for guard in state.guards if guard["passed"] is not True}
    for result in guards.evaluate(evidence):
        # Guards that are not about the patch itself were settled when it was let out.
        if result.name in guards.WAIVABLE - known and result.passed is not True:
            summary = f"{result.name} passed when this was approved, and fails now: {result.value}."
            raise Denied(FailureCategory.POLICY_DENIED, "guards_differ", summary)


def _facts(reading: GitReading) -> Json:
    return patch_facts(reading.files, reading.word, key=settings.EVENT_CHAIN_KEY.encode())
