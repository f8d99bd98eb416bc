"""The published schema as an attacker reads it: every operation, with what it allows and what it forbids.

Whatever is sent: no 500, no status that the schema does not have, no answer that is not as described, and
never HTML.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import pytest
import requests
import schemathesis
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from runs.api import waiting
from runs.api.base import PeopleThrottle
from runs.api.schema import openapi
from runs.domain.vocabulary import PersonRole, RunStatus
from runs.models import LiveLog
from runs.service import campaign_advance
from tests import factories as make
from tests.api import conformance
from tests.campaigns import make_campaign

pytestmark = pytest.mark.django_db

OPERATIONS = [(method, path) for path, item in openapi()["paths"].items() for method in item]


@cache
def _operations() -> dict[tuple[str, str], Any]:
    loaded: Any = schemathesis.openapi.from_dict(openapi())
    known = [result.ok() for result in loaded.get_all_operations()]
    return {(operation.method, operation.path): operation for operation in known}


@pytest.fixture
def world(monkeypatch) -> dict[str, Any]:
    """A run with a lease, one at its gate, one with a pull request, and who may do most with them."""
    monkeypatch.setattr(PeopleThrottle, "rate", "1000000/min")
    monkeypatch.setattr(waiting, "_places", threading.BoundedSemaphore(1))
    waiting._places.acquire()  # nobody waits here
    where = make.repository()
    holder = make.run_in(RunStatus.EXECUTING, where=where)
    gated = make.run_in(RunStatus.WAITING_FOR_APPROVAL, where=where)
    opened = make.run_in(RunStatus.SUCCEEDED, where=where).run
    campaign = make_campaign(1)
    campaign_advance(campaign_id=campaign.pk)
    LiveLog.objects.create(
        run=holder.run,
        operation_id="op-1",
        fence=1,
        worker_id=holder.run.worker_id,
        created_at=opened.created_at,
    )
    return {
        "ids": {
            "task_id": holder.run.task_id,
            "run_id": holder.run_id,
            "artifact_id": (gated.state.patch or {})["id"],
            "approval_id": gated.run.approvals.get().pk,
            "pull_request_id": opened.pull_request.pk,
            "repository": where.name,
            "operation_id": "op-1",
            "campaign_id": campaign.pk,
            "hold_id": "hold_01JZZZZZZZZZZZZZZZZZZZZZZZ",
        },
        "tokens": [make.person_token(make.person(PersonRole.ADMIN)), holder.machine.token],
        "lease": holder.token,
    }


def _cases(operation: Any, ids: dict[str, str]) -> st.SearchStrategy[Any]:
    """What the schema allows of things that are there; what it forbids of them; and of things made up."""
    real = {name: ids[name] for name in ids if f"{{{name}}}" in operation.path}
    return st.one_of(
        operation.as_strategy(GenerationMode.POSITIVE, path_parameters=real),
        operation.as_strategy(GenerationMode.NEGATIVE, path_parameters=real),
        operation.as_strategy(GenerationMode.POSITIVE),
    )


def test_no_input_is_answered_by_accident(world):
    """A little of everything: what each operation makes of a few inputs."""
    for method, path in OPERATIONS:
        _fuzz(world, method, path, examples=2)


@pytest.mark.long
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_input_of_thousands_is_answered_by_accident(world, method, path):
    _fuzz(world, method, path, examples=2_000)


def _fuzz(world: dict[str, Any], method: str, path: str, *, examples: int) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=examples < 100,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=_cases(_operations()[method, path], world["ids"]),
        token=st.sampled_from([*world["tokens"], ""]),
        lease=st.sampled_from([world["lease"], ""]),
    )
    def ask(case: Any, token: str, lease: str) -> None:
        _judge(case, token, lease)

    ask()


def _judge(case: Any, token: str, lease: str) -> None:
    sent = requests.Request(**case.as_transport_kwargs(base_url="http://testserver")).prepare()
    headers = {name: value for name, value in sent.headers.items() if name.lower() not in _OURS}
    headers |= {"authorization": f"Bearer {token}"} if token else {}
    headers |= {"lease-token": lease} if lease else {}
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body or b""
    kind = str(sent.headers.get("Content-Type", "application/octet-stream"))
    with transaction.atomic():
        answer = Client(raise_request_exception=False).generic(
            sent.method or "", sent.path_url, body, content_type=kind, headers=_text(headers)
        )
        transaction.set_rollback(True)
    assert answer.status_code != 500, sent.path_url
    assert "html" not in answer.get("Content-Type", "")
    if answer.status_code not in (404, 405):  # a made-up id may have another form than any of ours
        conformance.check(sent.method or "", sent.path_url, answer)


_OURS = {"authorization", "lease-token", "content-type", "content-length", "host"}


def _text(headers: dict[str, Any]) -> dict[str, str]:
    return {
        name: value.decode("latin-1") if isinstance(value, bytes) else value
        for name, value in headers.items()
    }
