"""Beat, as often as one likes: one of them acts, the others stand by and take over when it is gone.

Who acts holds an advisory lock in a database session of its own. It ends with its process; and where the
process hangs, or its machine is cut off, the database ends the session of one that says nothing. Who stands
by lets each moment pass as if it had acted, so that a takeover neither repeats nor forgets: the moments of
nightly tasks are kept in the database.
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from typing import Any, Final

import celery.beat
import psycopg
import structlog
from billiard.process import current_process
from celery.schedules import crontab

from agentplatform import turns
from agentplatform.database import session

log = structlog.get_logger(__name__)

#: Longer than any pause between two ticks (`CELERY_BEAT_MAX_LOOP_INTERVAL`).
SILENCE_SECONDS: Final = 20
_OPTIONS: Final = " ".join(
    f"-c {name}={value}"
    for name, value in {
        "idle_session_timeout": SILENCE_SECONDS * 1_000,
        "tcp_keepalives_idle": 5,
        "tcp_keepalives_interval": 5,
        "tcp_keepalives_count": 3,
        "tcp_user_timeout": SILENCE_SECONDS * 1_000,
    }.items()
)


class Turn:
    """Whose turn it is to act, among all processes that work on one database."""

    def __init__(self) -> None:
        self._session: psycopg.Connection | None = None
        self._held = False
        self._said: str | None = None

    def is_ours(self) -> bool:
        """Whether this process acts: it does already, or nobody else does any more."""
        try:
            self._held = self._ask()
            self._say("beat_acts" if self._held else "beat_stands_by")
        except psycopg.Error as error:
            self.give_up()
            self._say("beat_without_database", error=type(error).__name__)
        return self._held

    def last_sent(self) -> dict[str, datetime]:
        """When whoever acted sent each of the tasks whose moments are kept."""
        rows = self._open().execute("SELECT name, sent_at FROM periodic_tasks").fetchall()
        return {name: moment.astimezone(UTC) for name, moment in rows}

    def note_sent(self, name: str) -> None:
        """Keep that a task was sent now."""
        self._open().execute(
            "INSERT INTO periodic_tasks (name, sent_at) VALUES (%s, clock_timestamp())"
            " ON CONFLICT (name) DO UPDATE SET sent_at = excluded.sent_at",
            [name],
        )

    def give_up(self) -> None:
        """Let another have it, at once."""
        self._held = False
        if self._session is not None:
            with contextlib.suppress(psycopg.Error):
                self._session.close()
            self._session = None

    def _ask(self) -> bool:
        if self._held:
            self._open().execute("SELECT 1")  # the lock lives as long as the session
            return True
        row = self._open().execute("SELECT pg_try_advisory_lock(%s)", [int(turns.Turn.BEAT)]).fetchone()
        return row == (True,)

    def _open(self) -> psycopg.Connection:
        if self._session is None:
            self._session = session(name="beat", options=_OPTIONS)
        return self._session

    def _say(self, what: str, **more: str) -> None:
        if self._said != what:
            self._said = what
            log.info(what, **more)


class Scheduler(celery.beat.Scheduler):
    """Celery's scheduler, which sends only while it is this process's turn."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._turn = Turn()
        self._acts = False
        self._parent = os.getppid() if current_process().name == "Beat" else None
        super().__init__(*args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send one task that is due, or let it pass; the seconds until the next."""
        if self._parent not in {None, os.getppid()}:
            raise SystemExit  # the worker that beat belongs to was killed: nobody would ever stop it
        acted, self._acts = self._acts, self._turn.is_ours()
        if self._acts and not acted:
            self._recall()
        pause: float = super().tick(*args, **kwargs)
        return pause

    def apply_entry(self, entry: celery.beat.ScheduleEntry, producer: Any = None) -> None:
        """Send a task that is due, when it is for us to do."""
        if not self._acts:
            return
        super().apply_entry(entry, producer=producer)
        if isinstance(entry.schedule, crontab):
            with contextlib.suppress(psycopg.Error):  # then it comes once more after a takeover
                self._turn.note_sent(entry.name)

    def close(self) -> None:
        """Give the turn up."""
        self._turn.give_up()
        super().close()

    def _recall(self) -> None:
        """Go on where whoever acted before us stopped."""
        try:
            sent = self._turn.last_sent()
        except psycopg.Error:
            self._acts = False
            return
        for name, moment in sent.items():
            if name in self.schedule:
                self.schedule[name].last_run_at = moment
        self._heap = None
