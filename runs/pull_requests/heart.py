"""Keeps a lease alive while git talks to a repository that may take minutes."""

from __future__ import annotations

import threading
from types import TracebackType

import structlog
from django.db import connection

from runs import auth, leases
from runs.domain.errors import Refusal
from runs.leases import Claim

log = structlog.get_logger(__name__)


class Heart:
    """Beats for one claim from a thread of its own, with a connection of its own, until left."""

    def __init__(self, principal: auth.Principal, claim: Claim, *, interval_seconds: float) -> None:
        self._principal, self._claim, self._interval = principal, claim, interval_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heart-{claim.run.pk}", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        run_id, token = self._claim.run.pk, self._claim.token
        while not self._stop.wait(self._interval):
            try:
                leases.lease_heartbeat(principal=self._principal, run_id=run_id, token=token)
            except Refusal as refusal:
                # What is under way ends by itself; its result is refused, and the next holder finds it.
                log.warning("lease_not_renewed", run_id=run_id, code=refusal.code)
                break
            except Exception:
                log.exception("heartbeat_failed", run_id=run_id)
                connection.close()  # the next beat gets another, and the lease outlasts some that failed
        connection.close()
