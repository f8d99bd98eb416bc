"""Backups: one dump of the database for each, and one folder of artifacts and archives for all of them.

Neither kind of file ever changes: a later backup adds what is new, and no file of an earlier one is touched.
The dump is taken first, so that every file it names is there to be copied. Keys
are in no backup: who has the log and the key that closes it can write another.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from django.conf import settings
from django.core.management import call_command
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from agentplatform import postgres
from agentplatform.clock import database_now
from runs import rebuild
from runs.domain.errors import NotFound
from runs.models import Artifact, EventArchive
from runs.vault import OBJECTS, vault

_ARTIFACTS: Final = "artifacts"
_ARCHIVES: Final = "archives"
_PAGE: Final = 1_000


class BackupError(Exception):
    """What is in the way, and what to do about it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is said of a backup in the file beside its dump. Without that file a backup is not finished."""

    name: str
    dump_sha256: str
    dump_bytes: int
    artifacts: int
    artifacts_in_object_store: bool
    archives: int = 0


@dataclass(frozen=True, slots=True)
class Findings:
    """What was wrong after a restore, each a sentence; nothing, if all is as it was."""

    broken_chains: list[str]
    differences: list[str]
    missing_artifacts: list[str]
    missing_archives: list[str]

    @property
    def all(self) -> list[str]:
        return [*self.broken_chains, *self.differences, *self.missing_artifacts, *self.missing_archives]


# --- making one -------------------------------------------------------------------------------------


def backup(folder: Path) -> Manifest:
    """Add a backup to ``folder``. Nothing need be stopped. Raises ``BackupError``."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{database_now():%Y%m%dT%H%M%SZ}"
    if (folder / f"{name}.json").exists():
        raise BackupError("A backup was made this very second; try again.")
    dump, unfinished = folder / f"{name}.dump", folder / f"{name}.dump.unfinished"
    _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={unfinished}")
    unfinished.replace(dump)
    in_objects = OBJECTS in settings.STORAGES
    copied = 0 if in_objects else _add(Path(settings.ARTIFACT_DIR), folder / _ARTIFACTS, _BY_DIGEST)
    archives = _add(Path(settings.ARCHIVE_DIR), folder / _ARCHIVES, _ARCHIVED)
    manifest = Manifest(name, _digest(dump), dump.stat().st_size, copied, in_objects, archives)
    _write(folder / f"{name}.json", json.dumps(asdict(manifest), indent=2) + "\n")
    return manifest


#: What lies under its digest, and partitions of events; not what is still arriving or being written.
_BY_DIGEST, _ARCHIVED = "??/[!.]*", "[!.]*.jsonl.gz"


def _add(source: Path, target: Path, pattern: str) -> int:
    """Copy what ``target`` lacks; how many there are then."""
    for path in source.glob(pattern):
        place = target / path.relative_to(source)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            unfinished = place.with_name(f".{place.name}")
            shutil.copy2(path, unfinished)
            unfinished.replace(place)
    return sum(1 for _ in target.glob(pattern))


# --- bringing one back ------------------------------------------------------------------------------


def newest(folder: Path) -> str:
    """The name of the last finished backup. Raises ``BackupError`` where there is none."""
    names = sorted(path.stem for path in folder.glob("*.json"))
    if not names:
        raise BackupError(f"There is no finished backup in {folder}.")
    return names[-1]


def restore(folder: Path, name: str) -> Manifest:
    """Bring a backup back into an empty database, and its files to their places. Raises ``BackupError``.

    All or nothing in the database. Afterwards it is migrated to what this code knows.
    """
    manifest = _manifest(folder, name)
    dump = folder / f"{name}.dump"
    if not dump.is_file() or _digest(dump) != manifest.dump_sha256:
        raise BackupError(
            f"{dump} is not the file that was written: its digest differs. Take another backup."
        )
    with psycopg.connect(settings.DATABASE_OWNER_URL) as owner:
        if owner.execute("SELECT to_regclass('public.django_migrations')").fetchone() != (None,):
            raise BackupError("The database is not empty. Restore into a new one, so that nothing is lost.")
    if not manifest.artifacts_in_object_store and OBJECTS not in settings.STORAGES:
        _add(folder / _ARTIFACTS, Path(settings.ARTIFACT_DIR), _BY_DIGEST)
    _add(folder / _ARCHIVES, Path(settings.ARCHIVE_DIR), _ARCHIVED)
    _run("pg_restore", "--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges", str(dump))
    call_command("migrate", verbosity=0, interactive=False)
    return manifest


def look() -> Findings:
    """What ``verify_log`` and ``rebuild_runs --check --whole`` find, and which files are not as they were."""
    return Findings(
        broken_chains=[str(broken) for broken in rebuild.breaks("")],
        differences=[sentence for stream in rebuild.all_streams() for sentence in _differences(stream)],
        missing_artifacts=list(_missing_artifacts()),
        missing_archives=list(_missing_archives()),
    )


def _differences(stream: str) -> list[str]:
    try:
        return [str(found) for found in rebuild.differences(stream, whole=True)]
    except NotFound:  # a draft that was deleted meanwhile
        return []
    except rebuild.Unreadable as unreadable:
        return [str(unreadable)]


def _missing_artifacts() -> Iterator[str]:
    rows = Artifact.objects.order_by("pk").values_list("pk", "run_id", "sha256", "size")
    after = ""
    while page := list(rows.filter(pk__gt=after)[:_PAGE]):
        for pk, run_id, sha256, size in page:
            if not _is_kept(sha256, size):
                yield f"{run_id}: the bytes of {pk} are not in the store of artifacts"
        after = page[-1][0]


def _missing_archives() -> Iterator[str]:
    for archive in EventArchive.objects.filter(removed_at__isnull=False):
        path = Path(settings.ARCHIVE_DIR) / archive.file
        if not path.is_file():
            yield f"{path} is not there: the logs of {archive.runs:,} runs; bring it from where you keep it"
        elif _digest(path) != archive.sha256:
            yield f"{path} is not the file that was written: its digest differs"


def _is_kept(sha256: str, size: int) -> bool:
    try:
        return vault().size(sha256) == size
    except FileNotFoundError:
        return False


def _manifest(folder: Path, name: str) -> Manifest:
    try:
        return Manifest(**json.loads((folder / f"{name}.json").read_text()))
    except FileNotFoundError:
        known = ", ".join(sorted(path.stem for path in folder.glob("*.json"))) or "none"
        raise BackupError(f"There is no finished backup {name} in {folder}; there are: {known}.") from None
    except (TypeError, ValueError):
        raise BackupError(f"{folder / name}.json says nothing that this version can read.") from None


# --- parts ------------------------------------------------------------------------------------------


def _run(name: str, *words: str) -> None:
    """One of PostgreSQL's programs, on the owner's database; its password goes by the environment."""
    parts: dict[str, Any] = conninfo_to_dict(settings.DATABASE_OWNER_URL)
    password = parts.pop("password", "")
    command = [_program(name), f"--dbname={make_conninfo('', **parts)}", *words]
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BackupError(f"{name} did not do it:\n{done.stderr.strip()[-2000:]}")


def _program(name: str) -> str:
    if settings.EMBEDDED_DATABASE:
        return str(postgres.program(name))
    found = shutil.which(name)
    if found is None:
        raise BackupError(f"{name} is not here: install PostgreSQL's client, as new as the server or newer.")
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(text)
    unfinished.replace(path)


def sentences(findings: Sequence[str], *, most: int = 20) -> list[str]:
    """The first of them, and how many more there are."""
    rest = len(findings) - most
    return [*findings[:most], *([f"and {rest} more"] if rest > 0 else [])]
