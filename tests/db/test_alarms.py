"""A row or log that is not as recorded raises an alarm where people look, until it is right again."""

import io

import pytest
from django.core.management import call_command
from django.db import connection
from django.urls import reverse

from runs import tasks
from runs.domain.vocabulary import RunStatus
from runs.models import Alarm, Delivery, LogCheck, Run
from runs.selectors import attention
from tests import factories
from tests.db.test_outbox import consumer
from tests.db.test_verify_log import tamper

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folds_back() -> None:
    """These tests damage rows on purpose."""


@pytest.fixture
def admin(client):
    client.force_login(factories.person(is_staff=True, is_superuser=True))
    return client


def gauges(client) -> dict[str, float]:
    lines = client.get("/metrics").content.decode().splitlines()
    named = (line.rpartition(" ") for line in lines if line.startswith("agentplatform_"))
    return {name: float(value) for name, _, value in named}


def first_page(client) -> str:
    return client.get(reverse("admin:index")).content.decode()


def test_a_drift_is_an_alarm_until_the_row_is_right_again(admin):
    run = factories.queued_run()
    assert "were not checked yet" in first_page(admin)
    tasks.check_projections()
    assert gauges(admin)['agentplatform_alarms{kind="rows"}'] == 0
    assert "messagelist" not in first_page(admin)
    Run.objects.filter(pk=run.pk).update(gate="plan")
    tasks.check_projections()
    alarm = Alarm.objects.get()
    assert (alarm.kind, alarm.stream, alarm.place) == (Alarm.ROWS, run.pk, "run.gate")
    assert "1 alarm: a row or a log is not as recorded." in first_page(admin)
    assert gauges(admin)['agentplatform_alarms{kind="rows"}'] == 1
    tasks.check_projections()
    assert Alarm.objects.get().found_at == alarm.found_at
    Run.objects.filter(pk=run.pk).update(gate="")
    tasks.check_projections()
    assert gauges(admin)['agentplatform_alarms{kind="rows"}'] == 0
    assert [check.alarms for check in LogCheck.objects.order_by("pk")] == [0, 1, 1, 0]


def test_the_alarms_page_writes_rows_again(admin):
    run = factories.queued_run()
    Run.objects.filter(pk=run.pk).update(gate="plan")
    tasks.check_projections()
    page = reverse("admin:runs_alarm_changelist")
    chosen = {"action": "write_again", "_selected_action": [Alarm.objects.get().pk], "reason": "Drift."}
    answer = admin.post(page, chosen, follow=True)
    assert "1 differences were written again" in answer.content.decode()
    assert not Alarm.objects.exists()
    assert Run.objects.get(pk=run.pk).gate == ""


@pytest.mark.django_db(transaction=True)
def test_an_edited_log_is_an_alarm_of_its_own(admin, owner_connection):
    run_id = factories.run_in(RunStatus.LEASED).run_id
    edit = "UPDATE run_events SET actor_name = 'somebody' WHERE run_id = %s AND sequence = 2"
    tamper(owner_connection, edit, run_id)
    tasks.check_projections()
    alarm = Alarm.objects.get()
    assert (alarm.kind, alarm.stream, alarm.place) == (Alarm.LOG, run_id, "event 2")
    assert gauges(admin)['agentplatform_alarms{kind="log"}'] == 1


@pytest.mark.django_db(transaction=True)
def test_a_log_that_cannot_be_read_is_an_alarm_and_hides_no_other(admin, owner_connection):
    unreadable, drifted = factories.run_in(RunStatus.LEASED).run_id, factories.queued_run()
    tamper(
        owner_connection,
        "UPDATE run_events SET payload = '{}', facts = '{}' WHERE run_id = %s AND sequence = 1",
        unreadable,
    )
    Run.objects.filter(pk=drifted.pk).update(gate="plan")
    tasks.check_projections()
    found = set(Alarm.objects.values_list("kind", "stream", "place"))
    assert found == {
        (Alarm.LOG, unreadable, "event 1"),
        (Alarm.LOG, unreadable, "fold"),
        (Alarm.ROWS, drifted.pk, "run.gate"),
    }
    assert LogCheck.objects.get().finished_at
    said = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("rebuild_runs", check=True, stderr=said, stdout=io.StringIO())
    assert f"{unreadable} cannot be folded" in said.getvalue()


def test_parked_deliveries_are_shown_with_what_went_wrong_and_sent_again(admin):
    with consumer(lambda message: None):
        run = factories.queued_run()
    sent = Delivery.objects.filter(stream=run.pk, consumer="effects")
    sent.update(state=Delivery.PARKED, tries=12, error="Error: no")
    parked = Delivery.objects.get(state=Delivery.PARKED)
    assert f"1 for {parked.consumer}" in first_page(admin)
    assert gauges(admin)[f'agentplatform_deliveries_parked{{consumer="{parked.consumer}"}}'] == 1
    page = f"{reverse('admin:runs_delivery_changelist')}?state=parked"
    shown = admin.get(page).content.decode()
    for text in (parked.message.name, f"{run.pk} #{parked.message.sequence}", "Error: no", ">12<"):
        assert text in shown
    admin.post(page, {"action": "requeue", "_selected_action": [parked.pk], "reason": "Mended."})
    parked.refresh_from_db()
    assert (parked.state, parked.tries, parked.error) == (Delivery.PENDING, 0, "")


def test_a_transaction_that_stays_open_is_shown(admin, monkeypatch):
    other = connection.copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert "A transaction is open" not in first_page(admin)
        monkeypatch.setattr(attention, "LONGEST_TRANSACTION", -1)
        assert "A transaction is open for 0 minutes" in first_page(admin)
        assert gauges(admin)["agentplatform_oldest_transaction_seconds"] > 0
    finally:
        other.close()
