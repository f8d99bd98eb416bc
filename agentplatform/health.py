"""Health for machines: is the process alive, is it ready, what does it measure."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import structlog
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import Error as DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError as BrokerError
from prometheus_client import CONTENT_TYPE_LATEST

from agentplatform import measures
from agentplatform.celery import app, broker_folders, make_broker_folders

log = structlog.get_logger(__name__)


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 while the process answers; asks nothing of anybody else."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 when work can be done, else 503: `{"status", "checks": {name: "ok" or what is missing}}`."""
    checks = {name: _answer(name, check) for name, check in _CHECKS.items()}
    ready = all(answer == "ok" for answer in checks.values())
    response = JsonResponse(
        {"status": "ok" if ready else "unavailable", "checks": checks}, status=200 if ready else 503
    )
    response["Cache-Control"] = "no-store"
    if not ready:
        response["Retry-After"] = "2"
    return response


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text: what the web processes of this machine counted, and what the database knows."""
    return HttpResponse(measures.latest(), content_type=CONTENT_TYPE_LATEST)


class _NotReadyError(Exception):
    """The message is the answer: it is public, so it names no host, path or version."""


def _answer(name: str, check: Callable[[], None]) -> str:
    try:
        check()
    except _NotReadyError as missing:
        return str(missing)
    except (DatabaseError, BrokerError, OSError) as error:
        log.warning("not_ready", check=name, error=str(error))
        return "no connection"
    return "ok"


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _migrations() -> None:
    missing = _known_migrations() - set(MigrationRecorder(connection).applied_migrations())
    if missing:
        names = ", ".join(sorted(f"{app_label}.{name}" for app_label, name in missing))
        raise _NotReadyError(f"not applied: {names}")


@functools.cache
def _known_migrations() -> frozenset[tuple[str, str]]:
    """What this code brings along; it cannot change while the process lives."""
    return frozenset(MigrationLoader(None).disk_migrations)


def _broker() -> None:
    folders = broker_folders()
    if folders:
        make_broker_folders()
        if not all(os.access(folder, os.W_OK) for folder in folders):
            raise _NotReadyError("its folder cannot be written")
        return
    with app.connection_for_write(connect_timeout=2) as broker:
        broker.ensure_connection(max_retries=1, timeout=2)


_CHECKS: dict[str, Callable[[], None]] = {
    "database": _database,
    "migrations": _migrations,
    "broker": _broker,
}
