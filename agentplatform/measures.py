"""What this process counts, for Prometheus. What the database knows is asked of it at each scrape instead.

Web processes of one machine share their counters through files in ``PROMETHEUS_MULTIPROC_DIR``, which the
settings name before this module is read; whichever of them is asked answers for all. Counters of one that
died stay, so that none ever goes back.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

import psutil
from django.db import DEFAULT_DB_ALIAS, connections
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

#: What a caller makes up is no series of its own.
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAITS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
#: Gauges are written at most this often: they tell of a state, not of each request.
_LOOK_EVERY_SECONDS: Final = 2.0

REQUEST_SECONDS: Final = Histogram(
    "agentplatform_request_seconds",
    "Time to answer, by call; calls that wait for something to come up include their wait.",
    ["method", "call"],
    buckets=_SECONDS,
)
ANSWERS: Final = Counter(
    "agentplatform_answers", "Answers, by call and status.", ["method", "call", "status"]
)
REFUSALS: Final = Counter("agentplatform_refusals", "Refused API calls, by code.", ["code"])
CLAIMS: Final = Counter(
    "agentplatform_claims", "Claims: claimed, replayed, nothing to do, no place to wait.", ["result"]
)
CLAIM_WAIT_SECONDS: Final = Histogram(
    "agentplatform_claim_wait_seconds",
    "How long a claimed run had waited for a worker, from when it might have been claimed.",
    buckets=_WAITS,
)
POOL_CONNECTIONS: Final = Gauge(
    "agentplatform_pool_connections", "Database connections held.", multiprocess_mode="livesum"
)
POOL_WAITING: Final = Gauge(
    "agentplatform_pool_waiting", "Requests that wait for a database connection.", multiprocess_mode="livesum"
)
WEB_RESIDENT: Final = Gauge(
    "agentplatform_web_resident_bytes", "Memory of each web process.", multiprocess_mode="liveall"
)

_collectors: list[Collector] = []
_looked_at = 0.0


def collect_from(collector: Collector) -> None:
    """Ask ``collector``, too, at every scrape."""
    _collectors.append(collector)
    REGISTRY.register(collector)


def latest() -> bytes:
    """All figures as Prometheus text."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        return generate_latest(REGISTRY)
    _forget_the_dead(Path(folder))
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    for collector in _collectors:
        registry.register(collector)
    return generate_latest(registry)


def _forget_the_dead(folder: Path) -> None:
    """Only what tells of the moment: what a dead process had counted still counts."""
    for file in folder.glob("gauge_live*.db"):
        if not psutil.pid_exists(int(file.stem.rpartition("_")[2])):
            file.unlink(missing_ok=True)


def clear(folder: Path) -> None:
    """Begin anew, or leave nothing behind; nobody counts there now."""
    for file in folder.glob("*.db"):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not there, or something else in it: not ours to remove
        folder.rmdir()


def answered(*, method: str, call: str, status: int, seconds: float) -> None:
    """Count one answer; ``call`` is the route, so that there are as many as the product has."""
    method = method if method in _METHODS else "other"
    REQUEST_SECONDS.labels(method, call).observe(seconds)
    ANSWERS.labels(method, call, str(status)).inc()
    _look_at_this_process()


def _look_at_this_process() -> None:
    global _looked_at
    now = time.monotonic()
    if now - _looked_at < _LOOK_EVERY_SECONDS:
        return
    _looked_at = now
    WEB_RESIDENT.set(psutil.Process().memory_info().rss)
    # A pool belongs to the web process alone; commands and tests have none.
    if pool := getattr(connections[DEFAULT_DB_ALIAS], "pool", None):
        stats = pool.get_stats()
        POOL_CONNECTIONS.set(stats.get("pool_size", 0))
        POOL_WAITING.set(stats.get("requests_waiting", 0))
