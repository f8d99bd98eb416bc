"""One trace from a request over the outbox, Celery and a worker, by the standard ``traceparent``."""

from __future__ import annotations

import httpx
import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentplatform import tracing
from runs import outbox, tasks
from runs.domain.vocabulary import PersonRole
from runs.models import OutboxMessage
from tests import factories
from tests.api.calls import Caller
from worker import tracing as worker_tracing
from worker.client.plane import ControlPlane

pytestmark = pytest.mark.django_db

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = CALLER.split("-")[1]
EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider():
    """The provider of a process is set once; what it exports is kept here."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "_TRACER", provider.get_tracer("agentplatform"))
        patch.setattr(worker_tracing, "_TRACER", provider.get_tracer("worker"))
        patch.setattr(tracing, "is_on", lambda: True)
        yield


@pytest.fixture(autouse=True)
def _traced(settings):
    settings.MIDDLEWARE = ["agentplatform.tracing.TraceMiddleware", *settings.MIDDLEWARE]
    EXPORTER.clear()


def spans() -> dict[str, ReadableSpan]:
    return {span.name: span for span in EXPORTER.get_finished_spans()}


def trace_of(span: ReadableSpan) -> str:
    return trace.format_trace_id(span.context.trace_id)


def said(span: ReadableSpan, name: str) -> object:
    return (span.attributes or {}).get(name)


def submitted(**headers: str) -> str:
    """A task by REST; the id of its run."""
    where, caller = factories.repository(), factories.person_token(factories.person(PersonRole.SUBMITTER))
    body = {**factories.contract(), "repository": where.name, "submit": True}
    answer = Caller(caller).post("tasks", body, **headers)
    assert answer.status_code == 201, answer.content
    return str(answer.json()["latest_run_id"])


def test_a_request_continues_its_callers_trace_and_says_what_it_was():
    submitted(traceparent=CALLER)
    span = spans()["POST api/v1/tasks"]
    assert trace_of(span) == TRACE
    assert said(span, "http.response.status_code") == 201


def test_the_outbox_carries_the_trace_to_its_consumers():
    run_id = submitted(traceparent=CALLER)
    carried = OutboxMessage.objects.values_list("traceparent", flat=True)
    assert {text.split("-")[1] for text in carried} == {TRACE}
    seen: list[str] = []
    outbox.register("probe", lambda message: seen.append(tracing.traceparent()), wants={"RunQueued"})
    try:
        second = submitted(traceparent=CALLER)
        outbox.relay()
    finally:
        outbox.unregister("probe")
    assert [text.split("-")[1] for text in seen] == [TRACE]
    heard = spans()["probe hears RunQueued"]
    assert trace_of(heard) == TRACE
    assert said(heard, "agentplatform.stream") == second != run_id


def test_a_task_of_celery_goes_on_in_the_trace_of_whoever_sent_it():
    headers: dict[str, str] = {}
    with tracing.span("sender", parent=CALLER):
        tracing.carry(headers=headers)
    assert headers["traceparent"].split("-")[1] == TRACE
    task = tasks.relay
    task.push_request(headers=headers)
    try:
        tracing.begin_task("call-1", task)
        assert tracing.traceparent().split("-")[1] == TRACE
    finally:
        tracing.end_task("call-1")
        task.pop_request()
    assert trace_of(spans()["runs.tasks.relay"]) == TRACE
    assert tracing.traceparent() == ""


def test_a_tick_of_a_clock_makes_no_trace():
    task = tasks.relay
    tracing.begin_task("call-2", task)
    tracing.end_task("call-2")
    assert not spans()


def test_a_claim_carries_the_runs_trace_to_its_worker_and_its_calls_carry_it_back(monkeypatch):
    submitted(traceparent=CALLER)
    machine = factories.worker()
    plane = ControlPlane(url="http://testserver", token=machine.token)
    sent: list[httpx.Headers] = []

    def through_django(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers)
        names = {name: value for name, value in request.headers.items() if name != "content-length"}
        answer = Client().generic(
            request.method, request.url.path, request.read(), content_type="application/json", headers=names
        )
        return httpx.Response(answer.status_code, content=answer.content, headers=dict(answer.items()))

    monkeypatch.setattr(
        plane, "_http", httpx.Client(
            base_url="http://testserver/api/v1/", transport=httpx.MockTransport(through_django),
            headers={"Authorization": f"Bearer {machine.token}"},
        )
    )  # fmt: skip
    claim = plane.claim(roles=[], labels=[], wait_seconds=0, key="claim-1")
    assert claim is not None
    assert claim.traceparent.split("-")[1] == TRACE
    with worker_tracing.span("run", parent=claim.traceparent, run_id=claim.lease.run_id):
        plane.leased(claim.lease).post("worker_started", {"worker_version": "1"})
    assert sent[-1]["traceparent"].split("-")[1] == TRACE
    assert trace_of(spans()["run"]) == TRACE
    posted = spans()["POST api/v1/runs/<ulid:run_id>/events"]
    assert trace_of(posted) == TRACE
    assert posted.parent is not None
    assert posted.parent.span_id == spans()["run"].context.span_id, "the worker's span caused it"


def test_without_a_collector_nothing_is_recorded_and_nothing_breaks(monkeypatch):
    monkeypatch.setattr(tracing, "_TRACER", trace.NoOpTracer())
    request = RequestFactory().get("/healthz")
    request.resolver_match = None
    assert tracing.TraceMiddleware(lambda _: HttpResponse())(request).status_code == 200
    assert tracing.traceparent() == ""
    assert not spans()
