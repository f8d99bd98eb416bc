"""Traces of what a worker does, within the run's own trace, by OpenTelemetry.

The claim's answer carries the run's context (`traceparent`), and every call of the session carries it back,
so that control plane and worker tell one story. Spans of the worker's own appear where the SDK is installed
beside it and `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector; the context is passed on without, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

HEADER = "traceparent"
_PROPAGATOR = TraceContextTextMapPropagator()
_TRACER = trace.get_tracer("worker")


class NotInstalled(Exception):  # noqa: N818  named by what happened
    """Traces are asked for, and what makes them is not there."""


def configure() -> None:
    """Send spans to the collector that the environment names. Raises NotInstalled without the SDK."""
    endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    if not endpoint:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise NotInstalled(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set: install opentelemetry-sdk and"
            " opentelemetry-exporter-otlp-proto-http beside the worker, or unset it"
        ) from None
    provider = TracerProvider(resource=Resource.create({"service.name": "agentplatform-worker"}))
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def carried() -> dict[str, str]:
    """The present context as headers; empty where there is none."""
    headers: dict[str, str] = {}
    _PROPAGATOR.inject(headers)
    return {name: value for name, value in headers.items() if name == HEADER}


@contextmanager
def span(name: str, *, parent: str = "", **attributes: str) -> Iterator[None]:
    """What happens inside is a span; `parent` continues the context that a claim carried here."""
    inside = _PROPAGATOR.extract({HEADER: parent}) if parent else None
    with _TRACER.start_as_current_span(name, context=inside, attributes=dict(attributes)):
        yield
