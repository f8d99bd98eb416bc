"""Logs of runs that ended long ago leave the database: whole, verified, and only then."""

from __future__ import annotations

import gzip
import io
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from agentplatform import ids
from agentplatform.clock import clock_turned_to, database_now
from agentplatform.database import owner_login
from runs import archives, partitions, rebuild, service
from runs.auth import of_person
from runs.domain.commands import Caller
from runs.domain.errors import LogArchived
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import EventArchive, Person, Run
from runs.partitions import Partition
from tests import factories as make
from tests.driver import Driver

pytestmark = pytest.mark.django_db(transaction=True)
YEAR = timedelta(days=365)


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """The rows of these tests have no log to fold any more, or a damaged one."""


@dataclass
class Old:
    """A partition with ended runs in it, and the folder for archives."""

    partition: Partition
    runs: list[Run]
    folder: Path

    @property
    def file(self) -> Path:
        (found,) = self.folder.glob("*.gz")
        return found

    def archive(self) -> EventArchive:
        with owner_login():
            return archives.archive_partition(self.partition, folder=self.folder)


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Old]:
    """Two ended runs alone in a partition, which is there again afterwards."""
    monkeypatch.setattr(ids, "_last", 0)
    partitions.make_ahead()
    partition = partitions.partitions()[-1]
    ahead = partition.ends - database_now() - timedelta(hours=1)
    real = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + int(ahead.total_seconds() * 10**9))
        runs = [Driver.at(RunStatus.SUCCEEDED).run, Driver.at(RunStatus.CANCELLED).run]
    yield Old(partition, runs, tmp_path)
    if partition.name not in {one.name for one in partitions.partitions()}:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT add_event_partition(%s, %s, %s, 0)",
                [partition.name, partition.first, partition.beyond],
            )


def verify(*words: str) -> tuple[int, str]:
    out, code = io.StringIO(), 0
    try:
        call_command("verify_log", *words, stdout=out)
    except SystemExit as exit_:
        code = int(str(exit_.code))
    return code, out.getvalue()


def text_of(file: Path) -> str:
    return gzip.decompress(file.read_bytes()).decode()


def test_a_partition_is_written_verified_and_removed(old: Old, client):
    events = sum(run.version for run in old.runs)
    row = old.archive()

    assert (row.runs, row.events) == (2, events)
    assert old.partition.name not in {one.name for one in partitions.partitions()}
    assert verify("--file", str(old.file)) == (0, "Every chain holds.\n")
    assert verify("--file", str(old.file), "--run", old.runs[0].pk)[0] == 0
    lines = [json.loads(line) for line in text_of(old.file).splitlines()]
    assert [line["run"] for line in lines if "run" in line] == sorted(run.pk for run in old.runs)
    assert sum("sequence" in line for line in lines) == events

    # The rest of the product goes on without, and says where it is.
    assert "Those of 1 archives lie in files" in verify()[1]
    assert [rebuild.check(run.pk) for run in old.runs] == [0, 0]
    assert not {run.pk for run in old.runs} & set(rebuild.all_streams())
    with pytest.raises(CommandError, match=old.file.name):
        call_command("verify_log", "--run", old.runs[0].pk)
    _said_to_people(client, old.runs[0], old.file.name)


def _said_to_people(client, run: Run, file: str) -> None:
    person = make.person(PersonRole.ADMIN)
    client.force_login(person)
    for tab in ("timeline", "events"):
        assert file in client.get(f"/runs/{run.pk}/?tab={tab}").content.decode()
    headers = {"authorization": f"Bearer {make.person_token(person)}"}
    for part in ("events", "timeline", "receipt"):
        answer = client.get(f"/api/v1/runs/{run.pk}/{part}", headers=headers)
        assert (answer.status_code, answer.json()["code"], answer.json()["archive"]) == (
            410,
            "log_archived",
            file,
        )
    assert client.get(f"/api/v1/runs/{run.pk}", headers=headers).status_code == 200
    with pytest.raises(LogArchived):
        service.run_note(run_id=run.pk, text="late", by=_caller(person), key="late")


def _caller(person: Person) -> Caller:
    return of_person(person).caller


def test_what_still_moves_keeps_its_partition(old: Old):
    assert old.partition not in archives.due(days=30)
    with clock_turned_to(old.partition.ends + YEAR):
        assert old.partition in archives.due(days=365)
        reasons = [reason.what for reason in archives.waiting_for(old.partition, days=365)]
    assert reasons == ["pull requests are still open", "deliveries are pending"]
    Run.objects.filter(pk=old.runs[0].pk).update(completed_at=old.partition.ends + YEAR)
    with clock_turned_to(old.partition.ends + YEAR):
        found = archives.waiting_for(old.partition, days=365)
    assert str(found[0]) == f"1 runs have not ended so long ago, for example {old.runs[0].pk}"
    Run.objects.filter(pk=old.runs[0].pk).update(completed_at=old.runs[0].completed_at)


def test_a_note_between_writing_and_removing_is_not_lost(old: Old, monkeypatch: pytest.MonkeyPatch):
    run, real = old.runs[0], archives.leaving._remove

    def late(partition: Partition, row: EventArchive) -> None:
        service.run_note(run_id=run.pk, text="late", by=_caller(make.person(PersonRole.OPERATOR)), key="late")
        real(partition, row)

    with monkeypatch.context() as patch:
        patch.setattr(archives.leaving, "_remove", late)
        with pytest.raises(archives.NotComplete, match="write it again"):
            old.archive()
    assert EventArchive.of(run.pk) is None
    assert list(old.folder.iterdir()) == [], "what is not whole is not left where backups look"
    assert run.events.count() == run.version + 1
    row = old.archive()
    assert row.events == sum(one.version for one in old.runs) + 1
    assert verify("--file", str(old.file))[0] == 0
    assert row.sha256[:12] in old.file.name, "a file of one name never changes"


def test_an_edited_log_is_not_removed(old: Old, owner_connection):
    owner_connection.execute("SET session_replication_role = replica")
    edit = "UPDATE run_events SET actor_name = 'somebody' WHERE run_id = %s AND sequence = 2 RETURNING 1"
    assert owner_connection.execute(edit, [old.runs[0].pk]).fetchone()
    with pytest.raises(archives.NotComplete, match="breaks at event 2"):
        old.archive()
    assert old.partition.name in {one.name for one in partitions.partitions()}
    assert not list(old.folder.glob("*.gz"))


@pytest.mark.parametrize("damage", ["event", "run", "end", "bytes", "stranger"])
def test_a_damaged_file_is_found(old: Old, damage: str, tmp_path: Path):
    whole = archives.files.write_archive(tmp_path / "whole", "some", sorted(old.runs, key=lambda run: run.pk))
    assert list(archives.verify_archive(tmp_path / "whole")) == []
    lines = text_of(tmp_path / "whole").splitlines()
    first = whole.runs and json.loads(lines[0])["events"] + 1
    if damage == "event":
        lines[2] = (
            lines[2]
            .replace('"actor":{', '"actor":{"name":"x",', 1)
            .replace('"payload":{', '"payload":{"x":1,', 1)
        )
    elif damage == "run":
        lines = lines[first:]
    elif damage == "end":
        lines = lines[:-1]
    elif damage == "stranger":
        lines[first - 1], lines[-2] = lines[-2], lines[first - 1]
    (tmp_path / "bad").write_bytes(gzip.compress("\n".join(lines).encode()))
    if damage == "bytes":
        (tmp_path / "bad").write_bytes((tmp_path / "whole").read_bytes()[:-40])
    assert verify("--file", str(tmp_path / "bad"))[0] == 1


def test_a_file_that_is_not_there_is_an_error():
    with pytest.raises(CommandError, match="There is no file"):
        call_command("verify_log", "--file", "nowhere.jsonl.gz")


def test_the_command_says_what_stays_and_why(old: Old):
    out = io.StringIO()
    with pytest.raises(SystemExit), clock_turned_to(old.partition.ends + YEAR):
        call_command("archive_events", "--days", "300", "--folder", str(old.folder), "--dry-run", stdout=out)
    assert f"{old.partition.name} stays: " in out.getvalue()
    out = io.StringIO()
    call_command("archive_events", "--days", "3650", stdout=out)
    assert out.getvalue() == "No partition is old enough.\n"
