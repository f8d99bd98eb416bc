"""The reference worker as a process that writes down every answer it gets. Imports nothing of the product.

python -m tests.chaos.machine URL TOKEN FOLDER JOURNAL
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.journal import Journal
from worker.config import WorkerConfig
from worker.serving import serve


def write_down_answers(journal: Journal) -> None:
    send = httpx.Client.request

    def request(self: httpx.Client, method: str, url: Any, **more: Any) -> httpx.Response:
        response = send(self, method, url, **more)
        path = str(url).partition("?")[0]
        journal.answered(method, path, response.status_code, response.headers)
        if response.is_success and method == "POST":
            _note(journal, path, response)
        return response

    httpx.Client.request = request  # type: ignore[method-assign]


def _note(journal: Journal, path: str, response: httpx.Response) -> None:
    if path.endswith("/events"):
        journal.event(response.json()["event"])
    elif path.endswith("/events/batch"):
        for result in response.json()["results"]:
            journal.event(result["event"])
    elif path.endswith("/artifacts"):
        journal.note("artifact", id=response.json()["id"], sha256=response.json()["sha256"])
    elif path == "leases" and response.content:
        lease = json.loads(response.content)["lease"]
        journal.note("lease", id=lease["id"], run_id=lease["run_id"], fence=lease["fence"])


def main(url: str, token: str, folder: str, journal: str) -> None:
    write_down_answers(Journal(Path(journal)))
    config = WorkerConfig(work_dir=Path(folder), wait_seconds=2, kill_after_seconds=0.3, drain_seconds=1)
    serve(config, url=url, token=token, once=False, concurrency=2)


if __name__ == "__main__":
    main(*sys.argv[1:])
