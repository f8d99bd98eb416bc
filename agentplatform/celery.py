"""The Celery app. It only nudges: the outbox and the sweep hold the truth."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import before_task_publish, setup_logging

from agentplatform import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentplatform.settings")

broker.use()
app = Celery("agentplatform")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_logging(**_: Any) -> None:
    """Settings configured logging already; a receiver here keeps Celery from replacing it."""


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
