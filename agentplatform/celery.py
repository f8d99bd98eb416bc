"""The Celery app. It only nudges: the outbox and the sweep hold the truth."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import structlog
from celery import Celery
from celery.signals import (
    before_task_publish,
    setup_logging,
    task_postrun,
    task_prerun,
    worker_ready,
    worker_shutting_down,
)
from structlog.contextvars import bind_contextvars, clear_contextvars

from agentplatform import broker, stopping, tracing

log = structlog.get_logger(__name__)

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentplatform.settings")

broker.use()
app = Celery("agentplatform")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_logging(**_: Any) -> None:
    """Settings configured logging already; a receiver here keeps Celery from replacing it."""


before_task_publish.connect(tracing.carry)
task_prerun.connect(tracing.begin_task)
task_postrun.connect(tracing.end_task)


@task_prerun.connect
def name_task(task_id: str, task: Any, **_: Any) -> None:
    """Every line of a task says whose it is."""
    clear_contextvars()
    bind_contextvars(task=task.name, task_call=task_id)


@task_postrun.connect
def forget_task(**_: Any) -> None:
    clear_contextvars()


@worker_ready.connect
def end_with_beat(sender: Any, **_: Any) -> None:
    """A worker whose beat is gone would send nothing more and look well: it ends, and is started again."""
    pid = getattr(sender.controller.beat, "pid", None)
    if pid is not None:
        threading.Thread(target=_end_after, args=(pid,), name="beat's end", daemon=True).start()


def _end_after(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # whoever stops it in order still finds it
    if not stopping.is_asked():
        log.error("beat_ended", pid=pid)
        os.kill(os.getpid(), signal.SIGTERM)


@worker_shutting_down.connect
def end_after_what_is_in_hand(**_: Any) -> None:
    """Tasks that work in rounds end with the round: the process waits for them."""
    stopping.ask()


def broker_folders() -> list[Path]:
    """The folders of the filesystem broker; none with another broker."""
    from django.conf import settings

    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    return [Path(str(options[name])) for name in ("data_folder_in", "control_folder") if name in options]


@app.on_configure.connect
@before_task_publish.connect
def make_broker_folders(**_: Any) -> None:
    """The filesystem broker makes none of its folders itself, and somebody may remove them."""
    for folder in broker_folders():
        folder.mkdir(parents=True, exist_ok=True)
