"""What Celery runs for approvals: each only calls a function that may as well be called twice."""

from __future__ import annotations

import structlog
from celery import shared_task

from approvals.notices.keeping import forget_old

log = structlog.get_logger(__name__)


@shared_task(name="approvals.tasks.forget_notices")
def forget_notices() -> None:
    """Let old notices and letters go."""
    if gone := forget_old():
        log.info("notices_forgotten", notices=gone)
