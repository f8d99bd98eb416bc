"""What Celery runs: each only calls the same function as a command. Lost or repeated, nothing is lost
or repeated with it."""

from __future__ import annotations

import threading
from dataclasses import asdict

import structlog
from celery import shared_task

from runs import fetching, importing, livelogs, outbox, partitions, rebuild, timeouts
from runs.models.sessions import SessionStore
from runs.pull_requests import history, watch
from runs.pull_requests import run as pull_requests

log = structlog.get_logger(__name__)


@shared_task(name="runs.tasks.sweep")
def sweep() -> None:
    """Turn what is overdue into events."""
    for swept in timeouts.sweep():
        log.info("swept", run_id=swept.run_id, scope=swept.scope, event_type=swept.event, error=swept.error)
    livelogs.livelogs_seal()


@shared_task(name="runs.tasks.relay")
def relay() -> None:
    """Deliver domain events."""
    done = outbox.relay()
    if done.failed or done.parked or done.lost:
        log.warning("relayed", failed=done.failed, parked=done.parked, lost=done.lost)


_sending = threading.Lock()


@shared_task(name="runs.tasks.send_out")
def send_out() -> None:
    """Send mail, chat and webhooks. One at a time in a process: servers that hang hold up nothing else."""
    if not _sending.acquire(blocking=False):
        return
    try:
        done = outbox.send_out()
    finally:
        _sending.release()
    if done.failed or done.parked or done.lost:
        log.warning("sent_out", failed=done.failed, parked=done.parked, lost=done.lost)


@shared_task(name="runs.tasks.create_pull_requests")
def create_pull_requests() -> None:
    """Bring out approved patches."""
    for done in pull_requests.create_pull_requests():
        log.info("pull_request", run_id=done.run_id, event_type=done.event, refused=done.refused)


@shared_task(name="runs.tasks.fetch_mirrors")
def fetch_mirrors() -> None:
    """Keep the mirrors of repositories that are worked on up to date."""
    fetching.fetch_mirrors()


@shared_task(name="runs.tasks.watch_pull_requests")
def watch_pull_requests() -> None:
    """Look at open pull requests that are due."""
    for seen in watch.watch_pull_requests():
        log.info("pull_request_seen", **asdict(seen))


@shared_task(name="runs.tasks.import_repositories")
def import_repositories() -> None:
    """Look at organisations that are due."""
    for looked in importing.import_due():
        log.info("organisation_looked_at", **asdict(looked))


@shared_task(name="runs.tasks.make_partitions")
def make_partitions() -> None:
    """Make the partitions that events will soon need."""
    partitions.make_ahead()


_searching = threading.Lock()


@shared_task(name="runs.tasks.find_reverts")
def find_reverts() -> None:
    """Search git history for what was taken back. One at a time in a process: fetching takes its time."""
    if not _searching.acquire(blocking=False):
        return
    try:
        for found in history.find_reverts():
            log.info("change_reverted", pull_request_id=found.pull_request_id, commit=found.by)
    finally:
        _searching.release()


@shared_task(name="runs.tasks.check_projections")
def check_projections() -> None:
    """Fold every log, compare, and raise or clear alarms."""
    rebuild.check_all()


@shared_task(name="runs.tasks.forget_sessions")
def forget_sessions() -> None:
    """Delete the sessions that have ended by themselves."""
    SessionStore.clear_expired()
