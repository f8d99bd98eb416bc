"""A worker that dies where it is told to. Imports nothing of the control plane: it is forked afresh."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

from worker.client.plane import ControlPlane
from worker.config import WorkerConfig
from worker.loop.tools import Tool, ToolResult, Workbench
from worker.serving import serve


def live(url: str, token: str, folder: Path, kill_at: int) -> None:
    """A worker that is killed at its n-th boundary: before or after a call, before or after a tool."""
    count = itertools.count(1)

    def boundary() -> None:
        if next(count) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    send, call = ControlPlane.send, Tool.call

    def counted_send(self: ControlPlane, method: str, path: str, **more: Any) -> Any:
        if path.endswith("heartbeat"):
            return send(self, method, path, **more)
        boundary()
        answer = send(self, method, path, **more)
        boundary()
        return answer

    def counted_call(self: Tool, bench: Workbench, arguments: dict[str, Any]) -> ToolResult:
        boundary()
        result = call(self, bench, arguments)
        boundary()
        return result

    ControlPlane.send, Tool.call = counted_send, counted_call  # type: ignore[method-assign]
    config = WorkerConfig(work_dir=folder, wait_seconds=2, kill_after_seconds=0.3)
    serve(config, url=url, token=token, once=True)
