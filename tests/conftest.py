"""What every test may rely on: a database of its own, the app's role, and no trace of the test before.

`db` and `django_db` roll back. `transactional_db`, `live_server` and `django_db(transaction=True)` really
commit; afterwards the owner puts the tables back: the app's role may not TRUNCATE, and triggers forbid it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

from tests import database


def pytest_configure() -> None:
    if not _is_xdist_worker():
        database.remove_dead_sessions()
        database.begin_session()


def pytest_unconfigure() -> None:
    if not _is_xdist_worker():
        database.end_session()


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Replaces pytest-django's: the app's role may not make databases."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    with django_db_blocker.unblock():
        database.use_database(database.make_worker_database(worker))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", _restore_pristine)
        yield


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """What a process keeps for some seconds, such as the number of reviews, is not the next test's."""
    cache.clear()


@pytest.fixture(scope="session")
def new_folder() -> Callable[[], Path]:
    """Makes folders for servers of their own.

    Not below `tmp_path`: each start of pytest closes its root to other accounts, and a server started by root
    runs as another account.
    """
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    return lambda: Path(tempfile.mkdtemp(dir=settings.DATA_DIR))


@pytest.fixture
def owner_connection(django_db_setup: None) -> Iterator[psycopg.Connection]:
    """A superuser's own connection to the test's database, in autocommit; it sees only what is committed."""
    with psycopg.connect(database.owner_url(settings.DATABASES["default"]["NAME"]), autocommit=True) as owner:
        yield owner


def _restore_pristine(_: TransactionTestCase) -> None:
    connection.close()
    database.restore_pristine(settings.DATABASES["default"]["NAME"])


def _is_xdist_worker() -> bool:
    return "PYTEST_XDIST_WORKER" in os.environ
