"""The programs that make up the running product, as `manage.py up` starts them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import IO

from django.conf import settings

from agentplatform.postgres import Server
from agentplatform.supervisor import Child

WORKER_ROLES = ("worker", "agent_runtime", "verifier", "judge")

# Stopped from the highest stage down: first who calls, then who answers, then what both stand on.
_DATABASE, _WEB, _BACKGROUND, _WORKER = range(4)


def database(server: Server, log: IO[bytes]) -> Child:
    return Child(
        name="database",
        stage=_DATABASE,
        command=server.command(),
        stop_signal=signal.SIGINT,  # PostgreSQL's fast shutdown: open transactions are rolled back
        options={"stdout": log, "stderr": log, "cwd": "/", **server.account},
    )


def web(port: int) -> Child:
    command = [sys.executable, "-m", "gunicorn", "--config", "python:agentplatform.serving"]
    command += ["--bind", f"127.0.0.1:{port}", "--graceful-timeout", "4"]  # a person waits for the end of it
    return Child(
        name="web",
        stage=_WEB,
        command=command,
        environment={"PROMETHEUS_MULTIPROC_DIR": str(settings.METRICS_DIR), **_calm()},
        options={"cwd": settings.BASE_DIR},
    )


def background(port: int) -> Child:
    """One process for tasks and beat: its tasks wait for the database and for git, not for the processor."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
    pool = ["--beat", "--pool", "threads", "--concurrency", "4"]
    return Child(
        name="background",
        stage=_BACKGROUND,
        command=[sys.executable, "-m", "celery", "-A", "agentplatform", "--quiet", "worker", *pool, *quiet],
        # As root, in a container, Celery warns of pickled messages; ours are JSON.
        environment={
            "PYTHONWARNINGS": "ignore::UserWarning:celery.platforms",
            "AGENTPLATFORM_URL": settings.PUBLIC_URL or f"http://127.0.0.1:{port}",  # links in mail
            **_calm(),
        },
        options={"cwd": settings.BASE_DIR},
    )


def _calm() -> dict[str, str]:
    """In one terminal, a line for each request buries what a person looks for; LOG_LEVEL brings them back."""
    return {"LOG_LEVEL": os.environ.get("LOG_LEVEL", "WARNING")}


def reference_worker(number: int, *, port: int, token_file: Path) -> Child:
    """It runs what agents write: of the product's own variables it gets none."""
    arguments = {
        "--url": settings.PUBLIC_URL or f"http://127.0.0.1:{port}",
        "--token-file": str(token_file),
        "--work-dir": str(settings.SANDBOX_DIR / f"worker-{number}"),
        "--hide": str(settings.DATA_DIR),
        "--drain-seconds": "3",
        "--wait-seconds": "2",  # a claim that waits is not broken off: it delays a stop by as much
    }
    words = [word for pair in arguments.items() for word in pair]
    return Child(
        name=f"worker {number}",
        stage=_WORKER,
        command=[sys.executable, "-m", "worker", *words],
        withheld={variable.name for variable in settings.ENVIRONMENT} - {"OTEL_EXPORTER_OTLP_ENDPOINT"},
        options={"cwd": settings.BASE_DIR},
    )
