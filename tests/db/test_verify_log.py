"""An edit of the log by anyone, past the product, is found, with its place."""

import io

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from psycopg import sql

from runs.domain.vocabulary import RunStatus
from runs.models import Run
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """These tests damage rows on purpose."""


def verify(*words: str) -> tuple[int, str]:
    out, code = io.StringIO(), 0
    try:
        call_command("verify_log", *words, stdout=out)
    except SystemExit as exit_:
        code = int(str(exit_.code))
    return code, out.getvalue()


def tamper(owner: psycopg.Connection, statement: str, *values: object) -> None:
    """As somebody who has the whole database, its triggers included."""
    owner.execute("SET session_replication_role = replica")
    done = owner.execute(sql.SQL(statement), values)
    assert done.rowcount == 1
    owner.execute("SET session_replication_role = DEFAULT")


def test_an_untouched_log_holds():
    factories.run_in(RunStatus.EXECUTING)
    assert verify() == (0, "Every chain holds.\n")


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE run_events SET payload = '{\"number\": 7}' WHERE run_id = %s AND sequence = 3", 3),
        ("UPDATE run_events SET recorded_at = now() WHERE run_id = %s AND sequence = 2", 2),
        ("UPDATE run_events SET actor_name = 'somebody' WHERE run_id = %s AND sequence = 4", 4),
        ("DELETE FROM run_events WHERE run_id = %s AND sequence = 3", 3),
        ("DELETE FROM run_events WHERE run_id = %s AND sequence = 5", 6),
    ],
)  # fmt: skip
def test_an_edit_is_found_at_its_place(owner_connection, statement, place):
    run_id = factories.run_in(RunStatus.CONTEXT_BUILDING).run_id
    if place == 6:  # the last event cut off: the chain before it holds, its head does not
        last = Run.objects.get(pk=run_id).version
        statement, place = statement.replace("= 5", f"= {last}"), last
    tamper(owner_connection, statement, run_id)
    code, said = verify()
    assert code == 1
    assert said.startswith(f"{run_id} breaks at event {place}: ")
    assert said.count("\n") == 1


def test_a_chain_made_anew_without_the_key_is_found(owner_connection):
    run_id = factories.run_in(RunStatus.LEASED).run_id
    last = Run.objects.get(pk=run_id).version
    tamper(owner_connection, "DELETE FROM run_events WHERE run_id = %s AND sequence = %s", run_id, last)
    head = Run.objects.get(pk=run_id).events.order_by("-sequence")[0].hash
    statement = "UPDATE runs SET version = version - 1, chain_hash = %s WHERE id = %s"
    tamper(owner_connection, statement, head, run_id)
    assert "made without the platform's key" in verify("--run", run_id)[1]


def test_a_tasks_log_is_checked_as_well(owner_connection):
    task = factories.task()
    tamper(
        owner_connection, "UPDATE task_events SET payload = '{}' WHERE task_id = %s AND sequence = 1", task.pk
    )
    assert verify() == (1, f"{task.pk} breaks at event 1: its content is not what was recorded\n")
    assert verify("--run", task.latest_run_id)[0] == 0


def test_an_unknown_run_is_an_error():
    with pytest.raises(CommandError, match="nothing here"):
        call_command("verify_log", "--run", "run_0")
