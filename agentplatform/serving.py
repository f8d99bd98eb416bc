"""How gunicorn serves the product, wherever it is started: ``gunicorn -c python:agentplatform.serving``."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

from agentplatform import stopping
from agentplatform.environment import Environment
from agentplatform.variables import ENVIRONMENT

_env = Environment(ENVIRONMENT, os.environ)

wsgi_app = "agentplatform.wsgi"
worker_class = "gthread"
workers = _env.number("WEB_PROCESSES", minimum=1)
threads = _env.number("WEB_THREADS", minimum=1)
preload_app = True  # read once, for all processes: half the start, shared memory
graceful_timeout = 30  # a request that is under way is answered: the longest is an upload
control_socket_disable = True
loglevel = "warning"


def post_worker_init(worker: Any) -> None:
    """At SIGTERM, whoever waits in a long poll is answered at once: nobody waits through a restart."""
    begin_end = signal.getsignal(signal.SIGTERM)

    def end(number: int, frame: FrameType | None) -> None:
        stopping.ask()
        if callable(begin_end):
            begin_end(number, frame)

    signal.signal(signal.SIGTERM, end)
