"""Claim a run, work on it by its status until the lease ends, clean up, claim again."""

from __future__ import annotations

import logging
import random
import time
import uuid

from worker import tracing
from worker.client.errors import BadAnswer, DirectivePending, LeaseLost, Refused, Unavailable
from worker.client.heartbeat import Heartbeat
from worker.client.plane import ControlPlane
from worker.client.protocol import WIND_DOWN, Claim
from worker.config import ROLES, WorkerConfig
from worker.drain import Drain
from worker.metrics import FIGURES
from worker.phases import EDITING, PHASES
from worker.phases.endings import fail, hand_back, stop
from worker.phases.failures import RunFailure
from worker.sandbox.folder import sweep_orphans
from worker.session import Draining, LeaseEnded, RunSession, Stopped

logger = logging.getLogger("worker")

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
FATAL_CODES = frozenset({"not_authenticated", "actor_not_allowed", "permission_denied"})


class Worker:
    """One process, one run at a time."""

    def __init__(self, *, config: WorkerConfig, plane: ControlPlane, drain: Drain) -> None:
        self._config = config
        self._plane = plane
        self._drain = drain
        self._roles = config.roles or ROLES
        # Kept until a claim is answered, so that an answer lost on the way is got again.
        self._claim_key = uuid.uuid4().hex

    def run(self, *, once: bool = False) -> None:
        """Until asked to drain; with `once`, until one run's lease has ended or none was there.

        Raises Refused when the account may not claim.
        """
        self._config.work_dir.mkdir(parents=True, exist_ok=True)
        sweep_orphans(self._config.work_dir)
        failures = 0
        while not self._drain.asked:
            asked_at = time.monotonic()
            try:
                claim = self._claim()
            except (Unavailable, BadAnswer) as error:
                failures += 1
                self._wait_after(failures, error)
                continue
            given_up = self.work_on(claim) if claim is not None else None
            if once:
                return
            if claim is None:  # where too many wait, the answer comes at once: ask no faster for it
                self._drain.wait(asked_at + FIRST_WAIT_SECONDS - time.monotonic())
            failures = failures + 1 if given_up else 0
            if given_up:
                # Claimed again at once, a run that we cannot go on with loses its takeovers in seconds.
                self._wait_after(failures, given_up)

    def close(self) -> None:
        self._plane.close()

    def work_on(self, claim: Claim) -> Exception | None:
        """One claimed run, to the end of its lease. Leaves no process and no sandbox behind.

        Returns why it was given up, or None.
        """
        leased = self._plane.leased(claim.lease)
        beat = Heartbeat(leased).start()
        session = RunSession(claim=claim, leased=leased, beat=beat, config=self._config, drain=self._drain)
        FIGURES.claimed()
        logger.info("run %s: claimed in %s, fence %d", session.run_id, session.status, session.fence)
        try:
            with tracing.span("run", parent=claim.traceparent, run_id=session.run_id):
                _work(session)
        except (LeaseLost, LeaseEnded) as ended:
            logger.info("run %s: %s", session.run_id, ended or "the lease has ended")
        except (Unavailable, Refused, BadAnswer) as error:
            logger.warning("run %s: given up: %s", session.run_id, error)
            _give_up(session)
            return error
        finally:
            beat.stop()
            FIGURES.left(session.status)
            if not session.close():
                logger.error("run %s: its sandbox could not be removed", session.run_id)
        return None

    def _claim(self) -> Claim | None:
        try:
            claim = self._plane.claim(
                roles=self._roles,
                labels=self._config.labels,
                wait_seconds=self._config.wait_seconds,
                key=self._claim_key,
                isolation=self._config.isolation.level,
            )
        except Refused as refused:
            if self._narrow_roles(refused):
                return self._claim()
            if refused.code == "lease_lost":  # the answer came too late to be got again
                self._claim_key = uuid.uuid4().hex
                return self._claim()
            if refused.code in FATAL_CODES:
                raise
            raise Unavailable(f"claim refused: {refused}") from refused
        self._claim_key = uuid.uuid4().hex
        return claim

    def _narrow_roles(self, refused: Refused) -> bool:
        """Leave out roles that the account does not have, unless somebody asked for them by name."""
        missing = refused.problem.get("required_roles") or []
        left = tuple(role for role in self._roles if role not in missing)
        if self._config.roles or refused.code != "actor_not_allowed" or left in (self._roles, ()):
            return False
        self._roles = left
        return True

    def _wait_after(self, failures: int, error: Exception) -> None:
        longest = min(FIRST_WAIT_SECONDS * 2 ** min(failures - 1, 10), LONGEST_WAIT_SECONDS)
        seconds = longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, guards nothing
        logger.warning("%s; trying again in %.0f s", error, seconds)
        self._drain.wait(seconds)


def _work(session: RunSession) -> None:
    """Every way a run can leave this worker's hands, short of losing the lease."""
    try:
        _advance(session)
    except Stopped as stopped:
        stop(session, stopped.directive)
    except DirectivePending as pending:
        stop(session, pending.directive)
    except Draining:
        hand_back(session)
    except RunFailure as failure:
        fail(session, _masked(session, failure))
    except (LeaseLost, LeaseEnded, Unavailable, Refused, BadAnswer):
        raise
    except Exception as error:
        logger.exception("run %s: the worker failed", session.run_id)
        summary = f"{type(error).__name__}: {error}"
        broken = RunFailure("INFRASTRUCTURE", "worker_error", summary, retryable=True)
        fail(session, _masked(session, broken))


def _advance(session: RunSession) -> None:
    while session.live:
        session.boundary()
        # Nothing is in hand before EXECUTING, and EXECUTING itself knows what it has.
        if session.winding_down and session.status in EDITING - {"EXECUTING"}:
            raise Stopped(WIND_DOWN)
        phase = PHASES.get(session.status)
        if phase is None:
            session.release(reason=f"this worker does nothing in {session.status}")
            return
        with tracing.span(session.status, run_id=session.run_id):
            phase(session)


def _masked(session: RunSession, failure: RunFailure) -> RunFailure:
    failure.summary = session.masker.mask_text(failure.summary)
    return failure


def _give_up(session: RunSession) -> None:
    """Let somebody else try, if the control plane can be told at all."""
    try:
        if session.live:
            session.release(reason="the worker could not go on")
    except (Unavailable, Refused, BadAnswer) as error:
        logger.warning("run %s: the lease runs out by itself: %s", session.run_id, error)
