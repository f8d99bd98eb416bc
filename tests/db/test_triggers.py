"""What the database itself refuses to the app's role, whatever the code does."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction
from django_fsm import TransitionNotAllowed

from agentplatform.ids import new_id
from runs.domain.table import MOVES, edges, sources_of
from runs.domain.vocabulary import Ev, RunStatus
from runs.models import Run, Task
from tests.driver import Driver

pytestmark = pytest.mark.django_db

S = RunStatus


def _sql(statement: str, *values: str | int) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, values)


def _refused(statement: str, *values: str | int) -> str:
    with pytest.raises(DatabaseError) as refused:
        _sql(statement, *values)
    return str(refused.value)


def test_these_tests_are_neither_superuser_nor_owner():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
            " UNION ALL SELECT bool_or(tableowner = current_user) FROM pg_tables"
        )
        assert cursor.fetchall() == [(False,), (False,)]


@pytest.mark.parametrize("source", list(RunStatus))
def test_the_trigger_moves_as_the_table_does(source: RunStatus):
    driver = Driver.at(source)
    for target in RunStatus:
        if target is source:
            continue
        with transaction.atomic():
            if (source, target) in MOVES:
                _sql("UPDATE runs SET status = %s WHERE id = %s", target, driver.run_id)
            else:
                _refused("UPDATE runs SET status = %s WHERE id = %s", target, driver.run_id)
            transaction.set_rollback(True)


def _insert_run(task_id: str, repository_id: str, number: int, status: str) -> None:
    _sql(
        "INSERT INTO runs (id, task_id, repository_id, attempt_no, status, status_reason, worker_id, state,"
        " directive, fence, claim_role, begun, queue_key, needs, failure_category, gate, cost_usd,"
        " status_since, version, chain_hash, chain_mac, created_at, updated_at) VALUES (%s, %s, %s, %s, %s,"
        " '', '', '{}', 'continue', 0, '', false, 0, '{}', '', '', 0, now(), 0, '', '', now(), now())",
        new_id("run"),
        task_id,
        repository_id,
        number,
        status,
    )


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_run_begins_as_created_even_by_raw_sql(status: RunStatus):
    driver = Driver.at(S.CANCELLED)
    with transaction.atomic():
        if status is S.CREATED:
            _insert_run(driver.task_id, driver.repository.pk, 2, status)
        else:
            with pytest.raises(DatabaseError):
                _insert_run(driver.task_id, driver.repository.pk, 2, status)
        transaction.set_rollback(True)


def test_a_task_has_one_unfinished_run():
    driver = Driver.started()
    with pytest.raises(DatabaseError, match="one_unfinished_run_per_task"):
        _insert_run(driver.task_id, driver.repository.pk, 2, S.CREATED)


def _insert_event(run: Run, event: str, source: str, target: str, sequence: int) -> None:
    _sql(
        "INSERT INTO run_events (id, run_id, sequence, event_type, from_status, to_status, attempt,"
        " actor_type, actor_id, actor_name, fence, request_fingerprint, parent, payload, facts,"
        " schema_version, occurred_at, recorded_at, previous_hash, hash) VALUES (%s, %s, %s, %s, %s, %s,"
        " 0, 'x', 'x', 'x', 0, '', 0, '{}', '{}', 1, now(), now(), '', 'x')",
        new_id("evt"),
        run.pk,
        sequence,
        event,
        source,
        target,
    )


def test_an_event_is_a_cell_of_the_table():
    run = Driver.started().run
    known = {(event.value, a.value, b.value) for event, a, b in edges()}
    strangers = [
        (event, source, target)
        for event in (Ev.PATCH_CREATED, Ev.APPROVED, Ev.TIMEOUT, Ev.NOTE_ADDED)
        for source in RunStatus
        for target in RunStatus
        if (event.value, source.value, target.value) not in known
    ]
    for event, source, target in strangers[::7]:
        with pytest.raises(DatabaseError, match="no transition"):
            _insert_event(run, event, source, target, run.version + 1)
    with transaction.atomic():
        _insert_event(run, Ev.NOTE_ADDED, "QUEUED", "QUEUED", run.version + 1)
        transaction.set_rollback(True)


@pytest.mark.parametrize("step", [-1, 0, 2, 100])
def test_an_event_is_the_next_of_its_run(step: int):
    run = Driver.started().run
    with pytest.raises(DatabaseError):
        _insert_event(run, Ev.NOTE_ADDED, "QUEUED", "QUEUED", run.version + step)


def test_an_event_begins_where_the_last_one_ended():
    run = Driver.started().run
    with pytest.raises(DatabaseError, match="does not follow"):
        _insert_event(run, Ev.NOTE_ADDED, "EXECUTING", "EXECUTING", run.version + 1)


def _insert_move(task: Task, event: str, source: str, target: str, sequence: int) -> None:
    _sql(
        "INSERT INTO task_events (id, task_id, sequence, event_type, from_status, to_status, actor_type,"
        " actor_id, actor_name, payload, facts, schema_version, recorded_at, previous_hash, hash) VALUES"
        " (%s, %s, %s, %s, %s, %s, 'x', 'x', 'x', '{}', '{}', 1, now(), '', 'x')",
        new_id("evt"),
        task.pk,
        sequence,
        event,
        source,
        target,
    )


@pytest.mark.parametrize(
    ("event", "source", "target", "step"),
    [
        ("task_completed", "DRAFT", "COMPLETED", 1),
        ("task_failed", "COMPLETED", "FAILED", 1),
        ("task_cancelled", "READY", "CANCELLED", 1),
        ("task_cancelled", "RUNNING", "CANCELLED", 2),
    ],
)
def test_a_tasks_log_takes_only_the_next_move_of_its_table(event, source, target, step):
    task = Driver.started().run.task
    with pytest.raises(DatabaseError):
        _insert_move(task, event, source, target, task.version + step)


@pytest.mark.parametrize("table", ["run_events", "task_events"])
@pytest.mark.parametrize(
    "statement",
    ["UPDATE {} SET payload = '{{}}'", "DELETE FROM {}", "TRUNCATE {} CASCADE"],
)
def test_logs_are_append_only(table: str, statement: str):
    Driver.started()
    _refused(statement.format(table))


def test_runs_are_never_deleted():
    driver = Driver.at(S.CANCELLED)
    _refused("DELETE FROM runs WHERE id = %s", driver.run_id)


@pytest.mark.parametrize("column", ["status", "to_status"])
def test_the_schema_knows_no_other_status(column: str):
    driver = Driver.started()
    table = "runs" if column == "status" else "run_events"
    _refused(f"UPDATE {table} SET {column} = 'DONE'")
    assert driver.state.status == S.QUEUED


# --- the FSM methods: a third reader of the same table ---------------------------------------------


def test_the_fsm_has_one_edge_for_each_of_the_tables():
    wanted: dict[tuple[str, str], set[str]] = {}
    for event, source, _ in edges():
        targets = {b.value for ev, _, b in edges() if ev is event}
        wanted[event.value, source.value] = targets
    found = {
        (transition.name, transition.source): set(transition.target.allowed_states)  # type: ignore[union-attr]
        for transition in Run._meta.get_field("status").get_all_transitions(Run)
    }
    assert found == wanted


@pytest.mark.parametrize("event", [ev for ev in Ev if sources_of(ev)])
def test_a_method_takes_exactly_the_tables_edges(event: Ev):
    mine = {(a.value, b.value) for ev, a, b in edges() if ev is event}
    for source in RunStatus:
        for target in RunStatus:
            run = Run()
            run.__dict__["status"] = source.value
            if (source.value, target.value) in mine:
                getattr(run, event.value)(to=target.value)
                assert run.status == target
            else:
                with pytest.raises(TransitionNotAllowed):
                    getattr(run, event.value)(to=target.value)
                assert run.status == source


def test_a_status_is_not_assigned():
    run = Driver.started().run
    with pytest.raises(AttributeError):
        run.status = S.SUCCEEDED.value
