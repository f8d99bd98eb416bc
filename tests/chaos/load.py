"""Work and people at once, over HTTP alone: who asks, who reviews, who remarks, who looks at pages.

Each repeats a call under the same key until it is answered, as clients should, and notes what was promised.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.alerting import Scrape, fires, rules
from tests.chaos.journal import Journal

#: Tasks that are under way at a time.
OPEN: Final = 4
_DONE: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED", "REJECTED"})
_VERIFIER: Final = {"name": "no-two", "command": "! grep -q two notes.txt", "timeout_seconds": 60}
_SAY: Final = {"replace": {"path": "notes.txt", "old": "two", "new": "three"}, "finish": {"summary": "Done."}}


@dataclass
class Load:
    """All clients of one world. ``asking`` is cleared to let it run dry; ``over`` ends them."""

    url: str
    tokens: dict[str, str]
    journal: Journal
    folder: Path
    asking: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    counts: Counter[str] = field(default_factory=Counter)
    tasks: set[str] = field(default_factory=set)  #: acknowledged and not known to have ended
    errors: list[str] = field(default_factory=list)
    alerts: Counter[str] = field(default_factory=Counter)  #: how often each alert's condition was seen

    @contextmanager
    def running(self) -> Iterator[None]:
        self.asking.set()
        work = (self._ask, self._review, self._remark, self._look, self._watch)
        threads = [threading.Thread(target=self._guarded, args=(each,)) for each in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.asking.clear()
            self.over.set()
            for thread in threads:
                thread.join()

    def _guarded(self, work: Callable[[httpx.Client], None]) -> None:
        with httpx.Client(base_url=self.url, timeout=15, trust_env=False) as client:
            while not self.over.is_set():
                try:
                    work(client)
                except Exception as error:  # noqa: BLE001 - told at the end: a client must not die silently
                    self.errors.append(f"{work.__name__}: {type(error).__name__}: {error}")
                    return

    # --- the clients ------------------------------------------------------------------------------

    def _ask(self, client: httpx.Client) -> None:
        """New tasks, while few enough are under way."""
        for number in itertools.count():
            while not (self.asking.is_set() and len(self.tasks) < OPEN):
                if self.over.wait(1.0):
                    return
                self._forget_ended(client)
            title = f"Task {number}"
            body = {**contract(number, self.folder), "title": title, "repository": "package", "submit": True}
            answer = self.insist(client, "submitter", "POST", "tasks", body, key=f"task-{number}")
            if answer is None:
                return
            assert answer.status_code in (200, 201), answer.text
            self.journal.note("task", id=answer.json()["id"], title=title)
            self.tasks.add(answer.json()["id"])

    def _forget_ended(self, client: httpx.Client) -> None:
        for task_id in list(self.tasks):
            answer = self.insist(client, "submitter", "GET", f"tasks/{task_id}")
            if answer is not None and answer.json()["status"] in _DONE:
                self.tasks.discard(task_id)
                self.counts["tasks ended"] += 1

    def _review(self, client: httpx.Client) -> None:
        """Approves what asks for it."""
        self.over.wait(0.5)
        queue = self.insist(client, "reviewer", "GET", "approvals?status=open")
        for request in queue.json()["results"] if queue is not None else []:
            body = {
                "decision": "approve",
                "version": request["version"],
                "subject_sha256": request["subject_sha256"],
                "comment": "",
            }
            answer = self.insist(client, "reviewer", "POST", f"approvals/{request['id']}/decisions", body)
            if answer is not None and answer.is_success:
                self.journal.note("decision", id=request["id"], run_id=request["run_id"])

    def _remark(self, client: httpx.Client) -> None:
        """Remarks on runs: the cheapest event there is, so that one is always on its way."""
        for number in itertools.count():
            if self.over.wait(0.2) or (run := self._newest_run(client)) is None:
                return
            key, text = f"note-{number}", f"Remark {number}"
            answer = self.insist(client, "operator", "POST", f"runs/{run}/note", {"text": text}, key=key)
            if answer is not None:
                assert answer.is_success, answer.text
                self.journal.note("remark", run_id=run, text=text)

    def _newest_run(self, client: httpx.Client) -> str | None:
        while not self.over.is_set():
            answer = self.insist(client, "operator", "GET", "runs?limit=1")
            if answer is not None and (found := answer.json()["results"]):
                return str(found[0]["id"])
            self.over.wait(0.2)
        return None

    def _look(self, client: httpx.Client) -> None:
        """Pages, as a browser asks for them."""
        for path in ("/", "/runs/", "/approvals/", "/tasks/"):
            if self.over.wait(0.3):
                return
            try:
                answer = client.get(path, headers={"Cookie": f"sessionid={self.tokens['session']}"})
            except httpx.TransportError:
                self.counts["page unanswered"] += 1
                continue
            self.counts[f"page {answer.status_code}"] += 1
            self.journal.answered("GET", path, answer.status_code, answer.headers)

    def _watch(self, client: httpx.Client) -> None:
        """Scrapes figures as Prometheus does, and holds the alert rules against them."""
        before: Scrape | None = None
        while not self.over.wait(2.0):
            try:
                said = client.get("/metrics").text
            except httpx.TransportError:
                said = ""
            now = Scrape.of(said, at=time.monotonic())
            for rule in rules():
                self.alerts[rule["alert"]] += fires(rule["expr"], before or now.later(-2.0), now)
            before = now

    # --- asking -----------------------------------------------------------------------------------

    def insist(
        self, client: httpx.Client, who: str, method: str, path: str, body: Any = None, *, key: str = ""
    ) -> httpx.Response | None:
        """The answer, however often it takes; None when everything is over before."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}", **({"Idempotency-Key": key} if key else {})}
        while not self.over.is_set():
            began = time.monotonic()
            try:
                answer = client.request(method, f"/api/v1/{path}", json=body, headers=headers)
            except httpx.TransportError:
                self.counts["unanswered"] += 1
                self.over.wait(0.2)
                continue
            self.journal.answered(method, path, answer.status_code, answer.headers)
            self.counts[str(answer.status_code)] += 1
            if answer.status_code not in (429, 503):
                return answer
            self.counts["slowest refusal, ms"] = max(
                self.counts["slowest refusal, ms"], int((time.monotonic() - began) * 1000)
            )
            self.over.wait(0.2)
        return None


def contract(number: int, folder: Path) -> dict[str, Any]:
    """Three kinds in turn: a patch to take away, a pull request by itself, an agent that reaches outside."""
    base = {
        "instruction": "Replace two by three.",
        "allowed_paths": ["*.txt"],
        "verifiers": [_VERIFIER],
        "agent": {"kind": "script", "command": "sed -i s/two/three/ notes.txt"},
    }
    kind = number % 3
    if kind == 0:
        return {**base, "completion_mode": "patch_ready_for_review"}
    if kind == 1:
        return {**base, "auto_pr": True, "plan_approval": "never"}
    return {**base, "agent": agent_reaching_outside(folder / "effects" / str(number))}


def agent_reaching_outside(effects: Path) -> dict[str, Any]:
    """Its model tells somebody, edits, and tells again; what was told is a line in ``effects``."""
    turns: list[tuple[str, dict[str, Any]]] = [
        ("notify", {"text": "begin"}),
        ("replace", _SAY["replace"]),
        ("notify", {"text": "done"}),
        ("finish", _SAY["finish"]),
    ]
    tool = {
        "name": "notify",
        "command": f'echo "$OPERATION_ID" >> {effects}; echo told',
        "reconcile": f'grep -qx "$OPERATION_ID" {effects} && echo told',
        "effect": "outside",
    }
    script = [{"text": "", "calls": [{"tool": tool_name, "arguments": said}]} for tool_name, said in turns]
    return {"kind": "model", "model": "scripted", "script": {"turns": script}, "tools": [tool]}
