"""The reference worker as a process that dies, or stands still, at its n-th call to the control plane.

    python -m tests.race.mortal_worker URL TOKEN FOLDER SIGNAL CALL before|after

``before`` is before the call is sent, ``after`` when its answer has come. Without a signal (0) it goes on
until there is nothing left to claim. It imports nothing of the control plane, like the worker itself.
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from worker.claiming import Worker
from worker.client.plane import ControlPlane
from worker.config import WorkerConfig
from worker.drain import Drain


def make_mortal(signal: int, at: int, moment: str) -> None:
    send, calls = httpx.Client.request, count(1)

    def request(self: httpx.Client, *args: Any, **kwargs: Any) -> httpx.Response:
        due = next(calls) == at
        if due and moment == "before":
            os.kill(os.getpid(), signal)
        response = send(self, *args, **kwargs)
        if due and moment == "after":
            os.kill(os.getpid(), signal)
        return response

    httpx.Client.request = request  # type: ignore[method-assign]


class UntilEmpty(Drain):
    """Ends the worker when it would wait for more."""

    def wait(self, seconds: float) -> bool:
        self.ask()
        return True


def main(url: str, token: str, folder: str, *mortality: str) -> None:
    signal, at, moment = mortality
    plane = ControlPlane(url=url, token=token)
    config = WorkerConfig(work_dir=Path(folder), wait_seconds=2 if int(signal) else 0)
    if int(signal):
        make_mortal(int(signal), int(at), moment)
        Worker(config=config, plane=plane, drain=Drain(grace_seconds=1)).run(once=True)
    else:
        Worker(config=config, plane=plane, drain=UntilEmpty(grace_seconds=60)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
