"""Evidence: bytes streamed to disk, verified, read by the control plane itself, and served again.

Bytes lie under their SHA-256 in the vault; equal bytes are stored once. The row says which
run they belong to and what was read in them (REST contract, "Endpoints"; lifecycle contract,
section 6: a patch is read at upload, outside lock and transaction).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from django.conf import settings
from django.db import transaction

from agentplatform.clock import database_now
from agentplatform.ids import new_id
from runs import store
from runs.credentials import CredentialsWrong
from runs.credentials.access import AccessRefused, RepositoryAccess
from runs.domain import strict_json
from runs.domain.errors import (
    AmbiguousPatch,
    Invalid,
    LeaseLost,
    Malformed,
    NotAllowedNow,
    NotAPatch,
    TooLarge,
    UnsafePath,
)
from runs.domain.facts import Json
from runs.domain.patch import AmbiguousPatch as GitDisagrees
from runs.domain.patch import NotAPatch as GitRefuses
from runs.domain.patch import UnsafePath as GitForbids
from runs.domain.patch import read_patch
from runs.domain.patch.reading import GitWord, patch_facts
from runs.domain.secrets import without_secrets
from runs.domain.vocabulary import ArtifactKind
from runs.mirrors import GitFailed, Mirror
from runs.models import Artifact, Repository, Run
from runs.vault import vault

BLOCK_BYTES: Final = 1 << 20
DOCUMENT_MAX_BYTES: Final = 1 << 20
PATCH_MAX_BYTES: Final = 16 << 20
#: How long one upload may wait for the repository, in seconds.
FETCH_SECONDS: Final = 30.0
GIT_SECONDS: Final = 30.0
#: Kinds that events read: strict JSON, kept parsed beside the bytes.
DOCUMENTS: Final = frozenset({ArtifactKind.PLAN, ArtifactKind.VERIFICATION_REPORT, ArtifactKind.JUDGE_REPORT})


class Readable(Protocol):
    """Where bytes come from."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """An artifact, and whether this call made it; False where the same bytes were known already."""

    artifact: Artifact
    made: bool


@dataclass(frozen=True, slots=True)
class _Received:
    path: Path
    sha256: str
    size: int


def artifact_store(
    *,
    run_id: str,
    kind: ArtifactKind,
    content: Readable,
    content_type: str,
    sha256: str,
    account: str,
    lease_token: str,
) -> Stored:
    """Keep ``content`` as evidence of the run, under its active lease. ``sha256`` (hex) is what was sent.

    Raises ``LeaseLost``, ``TooLarge``, ``Invalid`` (digest), and for a patch ``NotAPatch``,
    ``UnsafePath``, ``AmbiguousPatch``, or ``NotAllowedNow`` before the run has a base commit.
    """
    run = Run.objects.select_related("task", "repository").get(pk=run_id)
    # Before the body is read: who has lost the run should not have to send 64 MiB to learn it.
    _check_lease(run, account, lease_token)
    with _received(content) as received:
        if received.sha256 != sha256:
            raise Invalid({"Content-Digest": [f"does not match: what arrived has sha-256 {received.sha256}"]})
        if known := Artifact.objects.filter(run=run, kind=kind, sha256=sha256).first():
            return Stored(known, made=False)
        facts, document = _read(run, kind, received)
        vault().keep(received.path, received.sha256)
    return _record(run, kind, received, facts=facts, document=document, account=account,
                   content_type=content_type, lease_token=lease_token)  # fmt: skip


def artifact_seal(
    *, run: Run, kind: ArtifactKind, data: bytes, content_type: str, account: str, fence: int
) -> Artifact:
    """Keep bytes that the control plane holds already, such as a live log that has ended.

    Outside a transaction: the vault may be far away.
    """
    with _received(io.BytesIO(data)) as received:
        vault().keep(received.path, received.sha256)
    artifact, _ = Artifact.objects.get_or_create(
        run=run,
        kind=kind.value,
        sha256=received.sha256,
        defaults={
            "id": new_id("art"),
            "size": received.size,
            "content_type": content_type,
            "created_by": account,
            "fence": fence,
            "created_at": database_now(),
        },
    )
    return artifact


def artifact_open(artifact: Artifact) -> BinaryIO:
    """Its bytes, to be read piece by piece. ``OSError`` where they are not to be had."""
    return vault().open(artifact.sha256)


def artifact_read(artifact: Artifact, start: int = 0, end: int | None = None) -> bytes:
    """Its bytes from ``start`` to before ``end``, or to the last. ``OSError`` as when it is opened."""
    return vault().read(artifact.sha256, start, end)


def digest_header(artifact: Artifact) -> str:
    """``Repr-Digest`` of its bytes (RFC 9530): whoever downloads them can check them."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(artifact.sha256)).decode()}:"


def mirror_of(repository: Repository) -> Mirror:
    """The repository's own mirror folder; every process of this installation uses the same."""
    place = Path(settings.MIRROR_DIR) / f"{repository.pk}.git"
    return Mirror(place, repository.url, lambda: _login(repository))


def _login(repository: Repository) -> Mapping[str, str]:
    try:
        return RepositoryAccess.of(repository).git_environment()
    except (CredentialsWrong, AccessRefused) as error:
        away = isinstance(error, AccessRefused) and error.retryable
        raise GitFailed(str(error) if away else f"authentication failed: {error}") from error


# --- lease ----------------------------------------------------------------------------------------


def _check_lease(run: Run, account: str, token: str) -> int:
    """The active lease's fence, or ``LeaseLost``."""
    lease = store.active_lease(run.pk)
    if lease is None or not store.holds(lease, account, token, database_now()):
        raise LeaseLost(fence=run.fence)
    return lease.fence


def _record(
    run: Run,
    kind: ArtifactKind,
    received: _Received,
    *,
    facts: Json,
    document: Json | None,
    account: str,
    content_type: str,
    lease_token: str,
) -> Stored:
    with transaction.atomic():
        # Under the run's lock: a takeover may have happened while the bytes were read.
        fence = _check_lease(store.lock_run(run.pk), account, lease_token)
        artifact, made = Artifact.objects.get_or_create(
            run=run,
            kind=kind.value,
            sha256=received.sha256,
            defaults={
                "id": new_id("art"),
                "size": received.size,
                "content_type": content_type,
                "facts": facts,
                "document": document,
                "created_by": account,
                "fence": fence,
                "created_at": database_now(),
            },
        )
    return Stored(artifact, made)


# --- bytes ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _received(content: Readable) -> Iterator[_Received]:
    """The bytes in a file of their own; gone again unless they are kept. In the folder of artifacts: where
    that is the vault, keeping them is a renaming.
    """
    folder = Path(settings.ARTIFACT_DIR) / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=folder)
    path, digest, size = Path(name), hashlib.sha256(), 0
    try:
        with os.fdopen(descriptor, "wb") as file:
            while block := content.read(BLOCK_BYTES):
                size += len(block)
                if size > settings.ARTIFACT_MAX_BYTES:
                    raise TooLarge(limit_bytes=settings.ARTIFACT_MAX_BYTES)
                digest.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        yield _Received(path, digest.hexdigest(), size)
    finally:
        path.unlink(missing_ok=True)


# --- reading --------------------------------------------------------------------------------------


def _read(run: Run, kind: ArtifactKind, received: _Received) -> tuple[Json, Json | None]:
    """The control plane's own reading: (facts, document)."""
    if kind is ArtifactKind.PATCH:
        return _read_patch(run, received), None
    if kind in DOCUMENTS:
        return _read_document(received)
    return {}, None


def _read_document(received: _Received) -> tuple[Json, Json | None]:
    """The parsed bytes; what is wrong with them is said at once, and refused when an event cites them."""
    if received.size > DOCUMENT_MAX_BYTES:
        return {"unreadable": f"more than {DOCUMENT_MAX_BYTES} bytes"}, None
    try:
        document = strict_json.parse(received.path.read_bytes())
    except Malformed as error:
        return {"unreadable": error.detail}, None
    if not isinstance(document, dict):
        return {"unreadable": "not a JSON object"}, None
    return {}, without_secrets(document)


def _read_patch(run: Run, received: _Received) -> Json:
    if received.size > PATCH_MAX_BYTES:
        raise TooLarge("The patch is too large to be reviewed.", limit_bytes=PATCH_MAX_BYTES)
    base = run.state["base_commit"]
    if not base:
        raise NotAllowedNow("Post sandbox_ready first: a patch is read against the run's base commit.")
    try:
        return _judged(run, received.path.read_bytes(), base)
    except GitRefuses as error:
        raise NotAPatch(f"This is not a patch that git can apply: {error}.", line=error.line) from error
    except GitForbids as error:
        raise UnsafePath(
            f"The patch names a path that is never allowed: {error}.", path=error.path
        ) from error
    except GitDisagrees as error:
        raise AmbiguousPatch(f"Git reads this patch otherwise than it is written: {error.why}.") from error


def _judged(run: Run, patch: bytes, base: str) -> Json:
    """Git's word on the patch; without the base commit only what the text says, and guards fail closed.

    Base and today's tip are in the mirror, which ``fetching`` keeps up to date: only a base commit that is
    younger than that, or a branch that nobody fetched yet, is asked for here, within the bound.
    """
    files = read_patch(patch)
    mirror, key = mirror_of(run.repository), settings.EVENT_CHAIN_KEY.encode()
    try:
        mirror.ensure(base, timeout=FETCH_SECONDS)
        head = _tip(mirror, run.task.contract["base_branch"])
        reading = mirror.read(patch, base, head, timeout=GIT_SECONDS)
    except GitFailed as error:
        return patch_facts(files, GitWord(commit=base, why=error.message), key=key)
    return patch_facts(reading.files, reading.word, key=key)


def _tip(mirror: Mirror, branch: str) -> str | None:
    """The tip of the base branch as last fetched; None where it never was and cannot be."""
    if mirror.resolve(branch) is None:
        with contextlib.suppress(GitFailed):
            mirror.fetch(branch=branch, timeout=FETCH_SECONDS)
    return mirror.resolve(branch)
