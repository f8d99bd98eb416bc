"""One worker process: several runs side by side, one drain, one page of figures."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from worker import tracing
from worker.claiming import Worker
from worker.client.plane import ControlPlane
from worker.config import WorkerConfig
from worker.drain import Drain
from worker.metrics import FIGURES, serve_figures
from worker.sandbox.folder import sweep_orphans


def serve(
    config: WorkerConfig, *, url: str, token: str, once: bool, concurrency: int = 1, metrics_port: int = 0
) -> None:
    """Until told to stop; with `once`, until each place has worked on one run or found none.

    SIGTERM and SIGINT drain; a second one ends at once. Raises Refused when the account may not claim.
    """
    tracing.configure()
    drain = _drain_on_signals(config.drain_seconds)
    config.work_dir.mkdir(parents=True, exist_ok=True)
    sweep_orphans(config.work_dir)
    FIGURES.places(concurrency)
    plane = ControlPlane(url=url, token=token)
    try:
        with _figures_at(metrics_port):
            _side_by_side(config, plane=plane, drain=drain, once=once, count=concurrency)
    finally:
        plane.close()


def _side_by_side(config: WorkerConfig, *, plane: ControlPlane, drain: Drain, once: bool, count: int) -> None:
    """Each place is a worker of its own in a thread; they share connections, drain and folder."""
    failures: list[Exception] = []

    def work() -> None:
        try:
            Worker(config=config, plane=plane, drain=drain).run(once=once)
        except Exception as error:  # noqa: BLE001 - raised again below, in the main thread
            # Where one may not claim, the others may not either.
            failures.append(error)
            drain.ask()

    threads = [threading.Thread(target=work, name=f"place {number}") for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        # Signals reach the main thread only while it comes back to Python now and then.
        while thread.is_alive():
            thread.join(0.5)
    if failures:
        raise failures[0]


@contextmanager
def _figures_at(port: int) -> Iterator[None]:
    if not port:
        yield
        return
    server = serve_figures(port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _drain_on_signals(grace_seconds: float) -> Drain:
    drain = Drain(grace_seconds=grace_seconds)

    def handle(number: int, frame: FrameType | None) -> None:
        drain.ask()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return drain
