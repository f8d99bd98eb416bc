"""Demonstration data: into an empty database, whole or not at all, and never in production."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.test import RequestFactory

from runs import service
from runs.demo import load
from runs.demo.people import PEOPLE
from runs.demo.repository import NAME
from runs.demo.tasks import TASKS
from runs.domain.vocabulary import RunStatus, TaskStatus
from runs.models import Person, Repository, RoleGrant, Run, Task, WorkerAccount
from runs.selectors.policies import effective_policies
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def data_dir(settings, tmp_path) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


def remote() -> Path:
    return Path(urlsplit(Repository.objects.get(name=NAME).url).path)


def git(*words: str, at: Path) -> str:
    done = subprocess.run(
        ["git", "-c", "safe.directory=*", *words], cwd=at, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_it_loads_people_a_repository_and_submitted_requests():
    load.demo_load()
    held = {(grant.person.username, grant.role) for grant in RoleGrant.objects.select_related("person")}
    assert held == {(person.name, role.value) for person in PEOPLE for role in person.roles}
    assert list(Task.objects.order_by("id").values_list("title", flat=True)) == [
        task["title"] for task in TASKS
    ]
    assert set(Task.objects.values_list("status", "created_by__username")) == {(TaskStatus.RUNNING, "sam")}
    assert set(Run.objects.values_list("status", flat=True)) == {RunStatus.QUEUED}
    assert load.is_demo_loaded()
    assert not load.is_empty()


def test_the_remote_is_bare_and_has_a_history_of_several_people():
    load.demo_load()
    assert git("rev-parse", "--is-bare-repository", at=remote()) == "true"
    assert git("log", "--format=%an: %s", "main", at=remote()).splitlines() == [
        "Jonas Adeyemi: Collect the scripts that change code",
        "Ina Weber: Say what is late",
        "Jonas Adeyemi: Keep an agenda",
        "Ina Weber: Count seconds",
        "Ina Weber: Tell the time",
    ]


def test_the_repository_passes_its_own_tests_at_every_commit(tmp_path):
    load.demo_load()
    checkout = tmp_path / "checkout"
    git("clone", "--quiet", str(remote()), str(checkout), at=tmp_path)
    for commit in git("rev-list", "--reverse", "main", at=checkout).split():
        git("-c", "advice.detachedHead=false", "checkout", "--quiet", commit, at=checkout)
        tested = subprocess.run(
            [sys.executable, "-m", "unittest"], cwd=checkout, capture_output=True, text=True, check=False
        )
        assert tested.returncode == 0, tested.stderr
        assert "Ran 0 tests" not in tested.stderr


def test_a_dead_worker_is_noticed_soon():
    load.demo_load()
    repository = Repository.objects.get(name=NAME)
    in_force = effective_policies(repository_ids=[repository.pk])[repository.pk].values
    assert (in_force["lease_seconds"], in_force["heartbeat_interval_seconds"]) == (15, 5)


def test_the_accounts_are_printed_and_kept_for_this_user_alone():
    printed = StringIO()
    call_command("load_demo", stdout=printed)
    kept = load.accounts_file()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text() in printed.getvalue()
    passwords = dict(line.split()[:2] for line in kept.read_text().splitlines()[1:])
    for person in PEOPLE:
        request = RequestFactory().post("/accounts/login/")
        found = authenticate(request, username=person.name, password=passwords[person.name])
        assert found is not None, person.name


def test_a_worker_is_made_only_where_there_is_none():
    make.worker()
    load.demo_load()
    assert WorkerAccount.objects.count() == 1


@pytest.mark.parametrize("made", [make.person, make.repository, make.queued_run])
def test_a_database_that_somebody_works_in_stays_as_it_is(made):
    made()
    before = Person.objects.count(), Repository.objects.count(), Task.objects.count()
    with pytest.raises(CommandError, match="empty database only"):
        call_command("load_demo")
    assert (Person.objects.count(), Repository.objects.count(), Task.objects.count()) == before
    assert not load.is_demo_loaded()


def test_production_refuses_it(settings):
    settings.PRODUCTION = True
    with pytest.raises(CommandError, match="refused in production"):
        call_command("load_demo")
    assert load.is_empty()


def test_a_load_that_breaks_off_leaves_the_database_empty_for_the_next(monkeypatch):
    def break_off(**_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(service, "task_create", break_off)
        with pytest.raises(OSError, match="disk"):
            load.demo_load()
    assert load.is_empty()
    load.demo_load()
    assert Task.objects.count() == len(TASKS)


def test_another_database_with_this_data_folder_is_no_demonstration():
    load.demo_load()
    Repository.objects.update(url="https://git.example.com/clock.git")
    assert load.accounts_file().exists()
    assert not load.is_demo_loaded()
