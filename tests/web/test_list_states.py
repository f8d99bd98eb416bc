"""Every list in every state: empty, filtered until it is, one row, many, nonsense in its address."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.domain.vocabulary import PersonRole
from runs.models import Person
from tests import factories as make
from tests.reviewing import waiting
from tests.web.test_runs_pages import text

pytestmark = pytest.mark.django_db
Fill = Callable[[Person], object]


#: Address → a filter, what an empty list says, what a filtered one says, one more row.
LISTS: dict[str, tuple[str, str, str, Fill]] = {
    "/tasks/": ("?display=draft", "No task yet", "Clear the filters", lambda _: make.task()),
    "/runs/": ("?display=failed", "No run yet", "Clear the filters", lambda _: make.queued_run()),
    "/approvals/": ("", "Nothing waits for you", "", lambda _: waiting()),
    "/repositories/": ("", "No repository", "", lambda _: make.repository()),
    "/workers/": ("", "No worker", "", lambda _: make.worker()),
}


@pytest.fixture
def dana(client: Client) -> Person:
    somebody = make.person(*PersonRole, name="dana")
    client.force_login(somebody)
    return somebody


@pytest.mark.parametrize("path", LISTS)
def test_a_list_says_what_it_is_when_empty_filtered_short_or_long(
    client: Client, dana: Person, monkeypatch: pytest.MonkeyPatch, path: str
):
    filtered, empty, cleared, fill = LISTS[path]
    monkeypatch.setattr("runs.selectors.paging.PAGE", 2)
    assert empty in text(client.get(path))
    fill(dana)
    assert empty not in text(client.get(path))
    if filtered:
        assert cleared in text(client.get(path + filtered))
        assert "Older" not in text(client.get(path))
    fill(dana)
    fill(dana)
    if filtered:  # the others show all there is
        assert "Older" in text(client.get(path))
    assert (
        client.get(path, {"display": "nonsense", "older": "x", "newer": "x", "page": "-1"}).status_code == 200
    )
