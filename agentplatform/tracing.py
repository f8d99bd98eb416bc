"""Traces, by OpenTelemetry: a request, what it set off in the background, and what a worker then did.

The context travels by the standard ``traceparent``: in headers of requests and of Celery's messages, and in a
column of the outbox. Without the extra and a collector's address all of this does nothing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_TRACER: Final = trace.get_tracer("agentplatform")
_HEADER: Final = "traceparent"


def configure(*, endpoint: str, service: str) -> None:
    """Send spans to the collector at ``endpoint`` (OTLP over HTTP). Raises without the extra."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and the extra for traces is not installed:"
            " pip install --require-hashes -r requirements.production.lock."
        ) from None
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    address = f"{endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)))
    trace.set_tracer_provider(provider)


def is_on() -> bool:
    """Whether spans go anywhere: else nothing need be looked up for them."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def traceparent() -> str:
    """The present context, to be carried on; "" where there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get(_HEADER, "")


@contextmanager
def span(
    name: str, *, parent: str = "", kind: SpanKind = SpanKind.INTERNAL, **attributes: Any
) -> Iterator[Span]:
    """What happens inside is a span; ``parent`` continues a context that was carried here."""
    said = {f"agentplatform.{key}": value for key, value in attributes.items() if value}
    inside = _PROPAGATOR.extract({_HEADER: parent}) if parent else None
    with _TRACER.start_as_current_span(name, context=inside, kind=kind, attributes=said) as found:
        yield found


@contextmanager
def continued(name: str, *, parent: str, **attributes: Any) -> Iterator[None]:
    """A span where something was carried here; where nothing was, none: the clocks' ticks are no story."""
    if not parent:
        yield
        return
    with span(name, parent=parent, kind=SpanKind.CONSUMER, **attributes):
        yield


class TraceMiddleware:
    """A span for each request, within the caller's context where it sends one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with span(
            f"{request.method}", parent=request.headers.get(_HEADER, ""), kind=SpanKind.SERVER
        ) as current:
            response = self.get_response(request)
            route = request.resolver_match.route if request.resolver_match else ""
            current.update_name(f"{request.method} {route}".strip())
            current.set_attribute("http.request.method", request.method or "")
            current.set_attribute("http.route", route)
            current.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= 500:  # noqa: PLR2004  a fault of ours
                current.set_status(Status(StatusCode.ERROR))
            for name, value in (request.resolver_match.kwargs if request.resolver_match else {}).items():
                if name.endswith("_id"):
                    current.set_attribute(f"agentplatform.{name}", str(value))
        return response


# --- Celery: from whoever sends a task to whoever does it ---------------------------------------------


def carry(headers: dict[str, Any] | None = None, **_: Any) -> None:
    """Receiver of ``before_task_publish``."""
    if headers is not None and (present := traceparent()):
        headers[_HEADER] = present


_tokens: dict[str, tuple[Any, Span]] = {}


def begin_task(task_id: str, task: Any, **_: Any) -> None:
    """Receiver of ``task_prerun``."""
    if parent := _carried_to(task):
        current = _TRACER.start_span(
            task.name, context=_PROPAGATOR.extract({_HEADER: parent}), kind=SpanKind.CONSUMER
        )
        _tokens[task_id] = (context.attach(trace.set_span_in_context(current)), current)


def end_task(task_id: str, **_: Any) -> None:
    """Receiver of ``task_postrun``."""
    if found := _tokens.pop(task_id, None):
        token, current = found
        current.end()
        context.detach(token)


def _carried_to(task: Any) -> str:
    request = getattr(task, "request", None)
    headers: Mapping[str, Any] = getattr(request, "headers", None) or {}
    return str(headers.get(_HEADER) or getattr(request, _HEADER, None) or "")
