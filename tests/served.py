"""The product's own web process over the test's database: what really answers when many ask at once."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.conf import settings

from agentplatform import programs
from tests.database import app_environment


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving() -> Iterator[int]:
    """One process of it answers at the port that is given; what the test made must be committed."""
    port = free_port()
    web = programs.web(port)
    environment = {
        **os.environ,
        **web.environment,
        "DJANGO_SETTINGS_MODULE": "agentplatform.settings",
        "PROMETHEUS_MULTIPROC_DIR": str(settings.DATA_DIR / "metrics"),
        **app_environment(settings.DATABASES["default"]["NAME"]),
    }
    command = [*web.command, "--workers", "1"]
    process = subprocess.Popen(command, env=environment, **web.options)
    try:
        _until_it_answers(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=30)


def _until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    pause = threading.Event()
    for _ in range(1_200):
        assert process.poll() is None, "it ended instead of answering"
        with suppress(OSError):
            there = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            there.request("GET", "/healthz")
            assert there.getresponse().status == 200
            there.close()
            return
        pause.wait(0.1)
    raise AssertionError("it did not begin to answer")
