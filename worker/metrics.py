"""A worker's figures, in the text format that Prometheus reads.

For whoever runs a fleet: how much of it is busy, how runs leave it, what models cost. Kept by hand:
a dozen numbers are not worth a library on every worker's machine.
"""

from __future__ import annotations

import threading
from collections import Counter
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from worker import __version__

_HELP = {
    "worker_places": ("gauge", "Runs that this worker may hold at a time"),
    "worker_runs_held": ("gauge", "Runs that this worker holds now"),
    "worker_claims_total": ("counter", "Runs claimed"),
    "worker_runs_left_total": ("counter", "Runs that left this worker, by the status they left in"),
    "worker_events_total": ("counter", "Events posted, by type"),
    "worker_model_tokens_total": ("counter", "Tokens as reported by models, by direction"),
    "worker_model_cost_usd_total": (
        "counter",
        "Known cost of models, US dollars; unknown cost is not in it",
    ),
    "worker_model_cost_unknown_total": ("counter", "Answers of models whose cost is not known"),
}


class Figures:
    """Counters of one process, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: Counter[tuple[str, str]] = Counter()
        self._cost = Decimal(0)

    def places(self, count: int) -> None:
        with self._lock:
            self._values["worker_places", ""] = count

    def claimed(self) -> None:
        self._add("worker_claims_total")
        self._add("worker_runs_held")

    def left(self, status: str) -> None:
        self._add("worker_runs_left_total", f'status="{status}"')
        self._add("worker_runs_held", by=-1)

    def posted(self, event: str) -> None:
        self._add("worker_events_total", f'type="{event}"')

    def asked(self, *, input_tokens: int | None, output_tokens: int | None, cost_usd: Decimal | None) -> None:
        """One answer of a model."""
        self._add("worker_model_tokens_total", 'direction="in"', by=input_tokens or 0)
        self._add("worker_model_tokens_total", 'direction="out"', by=output_tokens or 0)
        if cost_usd is None:
            self._add("worker_model_cost_unknown_total")
        else:
            with self._lock:
                self._cost += cost_usd

    def text(self) -> str:
        with self._lock:
            values, cost = dict(self._values), self._cost
        lines = [f'worker_info{{version="{__version__}"}} 1']
        for name, (kind, help_) in _HELP.items():
            lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
            if name == "worker_model_cost_usd_total":
                lines.append(f"{name} {cost:f}")
            found = sorted((labels, value) for (known, labels), value in values.items() if known == name)
            lines += [
                f"{name}{{{labels}}} {value}" if labels else f"{name} {value}" for labels, value in found
            ]
        return "\n".join(lines) + "\n"

    def _add(self, name: str, labels: str = "", *, by: int = 1) -> None:
        with self._lock:
            self._values[name, labels] += by


FIGURES = Figures()


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        pages = {"/metrics": FIGURES.text(), "/healthz": "ok\n"}
        data = pages.get(self.path, "there is /metrics and /healthz\n").encode()
        self.send_response(200 if self.path in pages else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing: a scrape is no news."""


def serve_figures(port: int) -> ThreadingHTTPServer:
    """Started in a thread of its own; raises OSError where the port is taken."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _Page)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="figures", daemon=True).start()
    return server
