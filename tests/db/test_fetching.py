"""Mirrors are fetched in the background while runs are under way; a request finds there what it needs."""

from __future__ import annotations

import pytest

from runs import fetching, tasks
from runs.artifacts import mirror_of
from runs.domain.vocabulary import RunStatus
from runs.mirrors import Mirror
from tests import factories
from tests.api.calls import LeasedCaller

pytestmark = pytest.mark.django_db

S = RunStatus


@pytest.fixture
def origin(settings, tmp_path):
    settings.MIRROR_DIR = tmp_path / "mirrors"
    return factories.make_origin(tmp_path / "origin")


@pytest.fixture
def fetched(monkeypatch) -> list[str]:
    """Every repository that anybody fetches from."""
    addresses: list[str] = []
    fetch = Mirror._fetch

    def listen(self: Mirror, *refs: str, timeout: float) -> None:
        addresses.append(self.url)
        fetch(self, *refs, timeout=timeout)

    monkeypatch.setattr(Mirror, "_fetch", listen)
    return addresses


def test_an_upload_reads_base_and_todays_tip_without_asking_the_repository(origin, fetched):
    where = factories.repository(url=origin.url)
    run = factories.queued_run(where)
    assert mirror_of(where).resolve("main") is None
    tasks.fetch_mirrors()
    assert (mirror_of(where).resolve("main"), fetched) == (origin.commit, [origin.url])
    holder = factories.claim(run=run)
    holder.patch, holder.base_commit = origin.patch, origin.commit
    factories.drive(holder, S.EXECUTING)
    origin.path.rename(origin.path.with_name("away"))
    base = LeasedCaller(holder).upload("patch", origin.patch).json()["facts"]["base"]
    assert (base["applies"], base["applies_to_head"], base["head"]) == (True, True, origin.commit)
    assert fetched == [origin.url]


def test_only_repositories_that_are_worked_on_are_fetched_and_one_that_is_away_holds_up_no_other(
    origin, fetched
):
    idle = factories.repository(url="file:///idle")
    factories.run_in(S.WAITING_FOR_APPROVAL, where=idle)
    fetched.clear()
    away = factories.repository(url="file:///nowhere")
    factories.queued_run(away)
    where = factories.repository(url=origin.url)
    for _ in range(2):
        factories.queued_run(where)
    assert fetching.fetch_mirrors() == 1
    assert sorted(fetched) == sorted([away.url, origin.url])


def test_one_process_fetches_at_a_time(origin, fetched):
    factories.queued_run(factories.repository(url=origin.url))
    with fetching._alone():
        assert fetching.fetch_mirrors() == 0
    assert fetched == []
