"""The patch under review: its files in the order of concern, what was left out, and how to try it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Final

from approvals.pages.review import Review
from approvals.remarks import Draft
from runs.domain.errors import Invalid
from runs.domain.facts import Json
from runs.domain.patch import PatchRefused
from runs.domain.vocabulary import Gate
from runs.models import Artifact
from runs.selectors.diff import Concern, Head, Look, patch_diff, patch_heads, unread_files


def diff_of(review: Review, look: Look, remarks: Sequence[Draft] = ()) -> Json | None:
    """``{files, summary, unread, title}`` for runs/_diff.html, None where there is nothing to read.

    ``remarks``: what somebody had begun to write beside its lines.
    """
    if review.gate is Gate.BUDGET:
        return _partial(review, look)
    if review.gate is not Gate.PATCH or review.subject is None:
        return None
    begun: dict[str, list[Json]] = {}
    for draft in remarks:
        begun.setdefault(draft.path, []).append(asdict(draft))
    may_remark = not review.entry.closed
    try:
        found: Json = patch_diff(
            review.subject, concern=concern_of(review), look=look, remarks=may_remark, begun=begun
        )
    except (OSError, PatchRefused):
        return None
    return found


#: Said in place of a patch that the store of artifacts does not give.
UNREADABLE: Final = (
    "cannot be shown, for its bytes are not readable now; so it cannot be approved."
    " Come back later, or ask an admin"
)


def concern_of(review: Review) -> Concern:
    """Which paths come first, and which files the request before showed as they are now."""
    known = frozenset(head.digest for head in heads_of(review.before_subject))
    return Concern(frozenset(review.risky), frozenset(review.unplanned), known)


def heads_of(artifact: Artifact | None) -> tuple[Head, ...]:
    """The files of a patch; none where its bytes cannot be read any more: then nothing of it is known."""
    try:
        return patch_heads(artifact) if artifact else ()
    except (OSError, PatchRefused):
        return ()


def unread_of(review: Review, seen: Collection[str]) -> int:
    """How many files of the patch neither the page showed whole nor the reviewer opened.

    Raises ``Invalid`` where its bytes cannot be read now: then nobody has read them.
    """
    if review.gate is not Gate.PATCH or review.subject is None:
        return 0
    try:
        return len(unread_files(review.subject, concern_of(review)) - frozenset(seen))
    except (OSError, PatchRefused) as error:
        raise Invalid({"patch": [UNREADABLE]}) from error


def _partial(review: Review, look: Look) -> Json | None:
    """What the run had made when its money ended: its last patch or checkpoint, which is one."""
    kept = review.state.patch or review.state.checkpoint or {}
    row = Artifact.objects.filter(run_id=review.request.run_id, pk=kept.get("id") or "").first()
    if row is None:
        return None
    try:
        return {**patch_diff(row, look=look), "title": "What it has made so far"}
    except (OSError, PatchRefused):
        return None


def try_it(review: Review, site: str) -> str:
    """One command that puts the patch on its base in the reader's own clone; "" without a patch.

    ``site``: the address of this installation. The token is the reader's own and stays in the environment.
    """
    base = (review.reading.get("base") or {}).get("commit")
    if review.subject is None or not base:
        return ""
    branch = shlex.quote(review.task.contract["base_branch"])
    patch = f"{site}/api/v1/artifacts/{review.subject.pk}"
    return (
        f"git fetch origin {branch} && git switch --detach {base} && "
        f'curl -fsS -H "Authorization: Bearer $AGENTPLATFORM_TOKEN" {shlex.quote(patch)} | git apply --index'
    )
