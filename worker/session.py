"""One claimed run in the hands of this worker: where it stands, and what may be done next."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from itertools import count

from worker.client.errors import LeaseLost
from worker.client.heartbeat import Heartbeat
from worker.client.plane import LeasedRun
from worker.client.protocol import CANCEL, PAUSE, WIND_DOWN, Answer, Artifact, Claim, Json
from worker.client.transport import Content
from worker.config import WorkerConfig
from worker.drain import Drain
from worker.metrics import FIGURES
from worker.sandbox.folder import Checkout, Sandbox
from worker.sandbox.masking import Masker

logger = logging.getLogger("worker")


class LeaseEnded(Exception):  # noqa: N818  named by what happened
    """The control plane took the run back after an event: the next move is somebody else's."""


class Stopped(Exception):  # noqa: N818  named by what happened
    """A person wants something else; `directive` is `cancel` or `pause`."""

    def __init__(self, directive: str) -> None:
        super().__init__(directive)
        self.directive = directive


class Draining(Exception):  # noqa: N818  named by what happened
    """This worker is shutting down: give the run up at this boundary."""


class RunSession:
    """Posts events and keeps what their answers say. Raises LeaseLost, LeaseEnded, Refused."""

    def __init__(
        self,
        *,
        claim: Claim,
        leased: LeasedRun,
        beat: Heartbeat,
        config: WorkerConfig,
        drain: Drain,
    ) -> None:
        self.config = config
        self.masker = Masker([*config.secrets(), claim.lease.token])
        self.resume = claim.resume
        self.run = dict(claim.run)
        self.sandbox: Sandbox | None = None
        self.checkout: Checkout | None = None
        self.checkout_attempt: int | None = None
        # Repairs begun in this session; `resume` counts those that were begun before it.
        self.rounds = 0
        self.handed_in_attempt: int | None = None
        self.leased = leased
        self._beat = beat
        self._drain = drain
        self._live = True
        self._stale = False
        self._numbers = count(1)
        self._beat.observe(str(self.run.get("directive") or self._beat.directive))

    @property
    def run_id(self) -> str:
        return self.leased.lease.run_id

    @property
    def fence(self) -> int:
        return self.leased.lease.fence

    @property
    def status(self) -> str:
        return str(self.run["status"])

    @property
    def live(self) -> bool:
        """Whether the lease is still this session's."""
        return self._live and not self._beat.lost

    @property
    def directive(self) -> str:
        return self._beat.directive

    @property
    def cancelling(self) -> bool:
        return self.directive == CANCEL

    @property
    def winding_down(self) -> bool:
        return self.directive == WIND_DOWN

    @property
    def base_commit(self) -> str | None:
        return self.run.get("base_commit") or None

    @property
    def repair_round(self) -> int:
        return max(self.resume.repairs, self.rounds)

    def post(self, type_: str, **payload: object) -> Answer:
        """One event under a key of its own, repeated with the same key until it is answered."""
        return self.post_all([(type_, payload)])

    def post_all(self, events: Sequence[tuple[str, Json]]) -> Answer:
        """Several events as one transaction."""
        self._must_be_live()
        if len(events) == 1:
            type_, payload = events[0]
            key = f"f{self.fence}-{next(self._numbers)}-{type_}"
            answer = self.leased.post(type_, payload, key=key)
        else:
            answer = self.leased.post_batch(events)
        logger.info("run %s: %s → %s", self.run_id, events[-1][0], answer.status)
        for type_, _ in events:
            FIGURES.posted(type_)
        self.run.update(answer.run)
        self._stale = True
        self._live = answer.leased
        self._beat.observe(answer.directive)
        return answer

    def upload(self, kind: str, content: Content, *, content_type: str = "text/plain") -> Artifact:
        self._must_be_live()
        return self.leased.upload(kind, content, content_type=content_type)

    def upload_json(self, kind: str, document: Json) -> Artifact:
        data = json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False).encode()
        return self.upload(kind, data, content_type="application/json")

    def refresh(self) -> None:
        """Ask again what is needed to go on, when the run moved since."""
        self._must_be_live()
        if self._stale:
            self.resume = self.leased.resume()
            self._stale = False

    def boundary(self) -> None:
        """Between two pieces of work. Raises LeaseLost, LeaseEnded, Stopped or Draining."""
        self._must_be_live()
        if self.directive in (CANCEL, PAUSE):
            raise Stopped(self.directive)
        if self._drain.asked:
            raise Draining

    def boundary_after_report(self) -> None:
        """Like `boundary`, but a pause or a shutdown lets finished work be handed in first."""
        self._must_be_live()
        if self.cancelling:
            raise Stopped(CANCEL)

    def must_stop_now(self) -> bool:
        """Whether a running command has to end at once. A pause lets it finish."""
        return self._beat.lost or self.cancelling or self._drain.overdue

    def close(self) -> bool:
        """Remove the sandbox; False when something of it is left."""
        sandbox, self.sandbox, self.checkout = self.sandbox, None, None
        return sandbox.destroy() if sandbox else True

    def release(self, *, reason: str) -> None:
        self.leased.release(reason=reason)
        self._live = False

    def _must_be_live(self) -> None:
        if self._beat.lost:
            raise LeaseLost
        if not self._live:
            raise LeaseEnded
