"""A backup that was made while all went on comes back whole, and what is wrong with it is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from psycopg import sql

from agentplatform import backups
from agentplatform.clock import database_now
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import Artifact, EventArchive, Run, RunEvent
from tests import database, factories
from tests.api.calls import Caller, LeasedCaller

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def elsewhere(settings, owner_connection, tmp_path) -> Iterator[Callable[[], None]]:
    """Goes over to an installation of its own: a new database and an empty data folder."""
    here = settings.DATABASES["default"]["NAME"]
    there = f"{here}_restored"
    settings.ARTIFACT_DIR, settings.ARCHIVE_DIR = tmp_path / "artifacts", tmp_path / "archives"
    settings.DATABASE_OWNER_URL = database.owner_url(here)

    def go() -> None:
        owner_connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(there)))
        database.use_database(there)
        settings.DATABASE_OWNER_URL = database.owner_url(there)
        settings.ARTIFACT_DIR, settings.ARCHIVE_DIR = tmp_path / "restored", tmp_path / "restored_archives"

    yield go
    database.use_database(here)
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    owner_connection.execute(drop.format(sql.Identifier(there)))


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "backups"


def a_run_with_evidence() -> LeasedCaller:
    caller = LeasedCaller(factories.run_in(RunStatus.EXECUTING))
    assert caller.upload("output", b"evidence " * 1_000).status_code == 201
    return caller


def evidence_of(caller: LeasedCaller) -> bytes:
    kept = Artifact.objects.get(run_id=caller.run_id, kind="output")
    return b"".join(caller.get(f"artifacts/{kept.pk}").streaming_content)


def run_command(name: str, *words: object) -> str:
    said = StringIO()
    call_command(name, *map(str, words), stdout=said)
    return said.getvalue()


def test_what_was_there_is_there_again_and_goes_on(elsewhere, folder):
    caller = a_run_with_evidence()
    ada = Caller(factories.person_token(factories.person(PersonRole.ADMIN)))
    before = list(RunEvent.objects.order_by("run_id", "sequence").values_list("hash", flat=True))
    run_command("backup", folder)
    elsewhere()
    assert "no artifact or archive is missing" in run_command("restore", folder)
    assert list(RunEvent.objects.order_by("run_id", "sequence").values_list("hash", flat=True)) == before
    assert evidence_of(caller) == b"evidence " * 1_000
    noted = ada.post(f"runs/{caller.run_id}/note", {"text": "It is back."})
    assert noted.status_code == 200, noted.content


def test_a_later_backup_adds_to_the_first_and_each_can_be_had(elsewhere, folder, monkeypatch):
    a_run_with_evidence()
    first = backups.backup(folder)
    kept = {path: path.stat().st_mtime_ns for path in (folder / "artifacts").rglob("*")}
    second_run = LeasedCaller(factories.run_in(RunStatus.EXECUTING))
    second_run.upload("output", b"more")
    a_minute_later = database_now() + timedelta(minutes=1)
    monkeypatch.setattr(backups, "database_now", lambda: a_minute_later)
    second = backups.backup(folder)
    assert second.artifacts == first.artifacts + 1
    assert all(path.stat().st_mtime_ns == moment for path, moment in kept.items() if path.is_file())
    elsewhere()
    run_command("restore", folder, "--name", first.name)
    assert not Run.objects.filter(pk=second_run.run_id).exists()


def test_logs_that_left_the_database_come_along(elsewhere, folder, settings):
    file = archived(b"the logs of a month")
    made = backups.backup(folder)
    assert made.archives == 1
    elsewhere()
    backups.restore(folder, made.name)
    assert (Path(settings.ARCHIVE_DIR) / file.name).read_bytes() == b"the logs of a month"
    assert backups.look().all == []
    (Path(settings.ARCHIVE_DIR) / file.name).write_bytes(b"others")
    assert "its digest differs" in backups.look().missing_archives[0]
    (Path(settings.ARCHIVE_DIR) / file.name).unlink()
    assert "the logs of 2 runs" in backups.look().missing_archives[0]


def archived(content: bytes) -> Path:
    """A partition that was let go to a file."""
    folder = Path(settings.ARCHIVE_DIR)
    folder.mkdir(exist_ok=True)
    file = folder / "run_events_20260101.jsonl.gz"
    file.write_bytes(content)
    EventArchive.objects.create(
        name="run_events_20260101", first="run_0", beyond="run_00", file=file.name, runs=2, events=9,
        sha256=hashlib.sha256(content).hexdigest(), written_at=database_now(), removed_at=database_now(),
    )  # fmt: skip
    return file


def test_a_restore_over_what_is_there_is_refused(elsewhere, folder):
    a_run_with_evidence()
    run_command("backup", folder)
    with pytest.raises(CommandError, match="not empty"):
        run_command("restore", folder)
    assert Run.objects.exists()


def test_a_dump_that_was_damaged_is_refused_before_anything_is_written(elsewhere, folder):
    made = backups.backup(folder)
    with (folder / f"{made.name}.dump").open("r+b") as dump:
        dump.seek(made.dump_bytes // 2)
        dump.write(b"\0damaged\0")
    elsewhere()
    with pytest.raises(CommandError, match="digest differs"):
        run_command("restore", folder)


def test_a_name_that_is_not_there_is_refused_with_those_that_are(folder):
    with pytest.raises(CommandError, match="no finished backup"):
        run_command("restore", folder)
    folder.mkdir()
    (folder / "20260101T000000Z.json").write_text(json.dumps({"name": "20260101T000000Z"}))
    with pytest.raises(CommandError, match="20260101T000000Z"):
        run_command("restore", folder, "--name", "20270101T000000Z")


def test_what_lacks_its_bytes_or_was_changed_is_found(elsewhere, folder, settings):
    caller = a_run_with_evidence()
    made = backups.backup(folder)
    elsewhere()
    backups.restore(folder, made.name)
    kept = Artifact.objects.get(run_id=caller.run_id, kind="output")
    (Path(settings.ARTIFACT_DIR) / kept.sha256[:2] / kept.sha256).unlink()
    with psycopg.connect(settings.DATABASE_OWNER_URL) as owner:
        owner.execute("SET session_replication_role = replica")
        owner.execute(
            "UPDATE run_events SET payload = '{}' WHERE run_id = %s AND sequence = 1", [caller.run_id]
        )
    found = backups.look()
    assert [kept.pk in sentence for sentence in found.missing_artifacts] == [True]
    assert any(caller.run_id in sentence for sentence in found.broken_chains)
    assert any("cannot be folded" in sentence for sentence in found.differences)
