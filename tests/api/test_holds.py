"""Holds over REST and from the command line: set, listed, lifted, by those who may."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from runs.domain.vocabulary import PersonRole
from runs.models import Hold
from tests import factories
from tests.api.calls import Caller

pytestmark = pytest.mark.django_db


def caller(role: PersonRole, repository=None) -> Caller:
    return Caller(factories.person_token(factories.person(role, repository=repository)))


def test_a_hold_is_set_read_and_lifted():
    where, operator = factories.repository(), caller(PersonRole.OPERATOR)
    run = factories.queued_run(where)
    body = {"scope": "repository", "value": where.name, "reason": "The forge moves"}
    made = operator.post("holds", {**body, "expires_at": "2126-01-01T00:00:00Z"})
    assert made.status_code == 201, made.content
    hold = made.json()
    assert (hold["value"], hold["in_force"], hold["expires_at"]) == (
        where.name,
        True,
        "2126-01-01T00:00:00.000000Z",
    )
    waiting = operator.get(f"runs/{run.pk}").json()["waiting_for"]
    assert (waiting["reason"], waiting["until"]) == ("hold", hold["expires_at"])
    assert [row["id"] for row in operator.get("runs?waiting_reason=hold").json()["results"]] == [run.pk]
    assert operator.send("DELETE", f"holds/{hold['id']}").json()["in_force"] is False
    assert operator.get("holds?in_force=true").json()["results"] == []
    assert [row["id"] for row in operator.get("holds").json()["results"]] == [hold["id"]]
    assert operator.get(f"runs/{run.pk}").json()["waiting_for"]["reason"] == "queue"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scope": "label", "reason": "x"}, "value"),
        ({"scope": "planet", "reason": "x"}, "scope"),
        ({"scope": "platform"}, "reason"),
        ({"scope": "platform", "reason": "x", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"scope": "platform", "reason": "x", "expires_at": "tomorrow"}, "expires_at"),
        ({"scope": "repository", "value": "nowhere", "reason": "x"}, "value"),
    ],
)
def test_what_is_wrong_with_a_hold_is_said_by_field(body, field):
    answer = caller(PersonRole.OPERATOR).post("holds", body)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert not Hold.objects.exists()


def test_an_operator_of_one_repository_holds_that_one_alone():
    where, other = factories.repository(), factories.repository()
    local = caller(PersonRole.OPERATOR, where)
    assert local.post("holds", {"scope": "platform", "reason": "x"}).status_code == 403
    assert local.post("holds", {"scope": "label", "value": "a", "reason": "x"}).status_code == 403
    hidden = local.post("holds", {"scope": "repository", "value": other.name, "reason": "x"})
    unknown = local.post("holds", {"scope": "repository", "value": "nowhere", "reason": "x"})
    assert hidden.status_code == unknown.status_code == 422
    made = local.post("holds", {"scope": "repository", "value": where.name, "reason": "x"})
    assert made.status_code == 201
    everywhere = caller(PersonRole.OPERATOR)
    theirs = everywhere.post("holds", {"scope": "repository", "value": other.pk, "reason": "x"}).json()
    whole = everywhere.post("holds", {"scope": "platform", "reason": "x"}).json()
    assert {row["id"] for row in local.get("holds").json()["results"]} == {made.json()["id"], whole["id"]}
    assert local.send("DELETE", f"holds/{theirs['id']}").status_code == 404
    assert local.send("DELETE", f"holds/{whole['id']}").status_code == 403


def command(*words: str) -> str:
    out = StringIO()
    call_command("hold", *words, stdout=out)
    return out.getvalue().strip()


def test_the_command_sets_lists_and_lifts():
    made = command("set", "--reason", "Maintenance", "--minutes", "30", "--by", "carol")
    assert command("list").startswith(f"{made}  Everything is held by carol until ")
    assert command("lift", made) == made
    assert command("list") == ""
    with pytest.raises(CommandError, match="reason: say why"):
        command("set")
    with pytest.raises(CommandError, match="Name the hold"):
        command("lift")
