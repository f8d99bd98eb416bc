"""Asking a model: patient with a busy provider, at once deaf when the run is stopped."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Self

from pydantic_ai import direct
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from worker.models import OpenedModel
from worker.models.patience import ModelPatience

logger = logging.getLogger("worker")

POLL_SECONDS = 0.2
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
LONGEST_RETRY_AFTER = 300.0
# A provider that answers nonsense this often will go on doing so.
MOST_NONSENSE = 3


class Interrupted(Exception):  # noqa: N818  named by what happened
    """The run was stopped while the model was thinking."""


class ModelFailed(Exception):  # noqa: N818  named by what happened
    """The model cannot be had; `retryable` where another run may have more luck."""

    def __init__(self, summary: str, *, retryable: bool) -> None:
        super().__init__(summary)
        self.retryable = retryable


class Asker:
    """One opened model and the event loop it lives in; close it, or use it in a `with`."""

    def __init__(
        self, opened: OpenedModel, *, must_stop: Callable[[], bool], patience: ModelPatience | None = None
    ) -> None:
        self._opened = opened
        self._must_stop = must_stop
        self._patience = patience or ModelPatience()
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.close()
        self._opened.close()

    @property
    def model(self) -> Model:
        return self._opened.model

    def ask(self, messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition]) -> ModelResponse:
        """Raises Interrupted or ModelFailed."""
        return self._runner.run(self._ask(list(messages), list(tools)))

    def cost_of(self, response: ModelResponse) -> Decimal | None:
        """US dollars, or None where the price or the usage is not known: never zero for want of knowing."""
        if self._opened.costs_nothing:
            return Decimal(0)
        if not response.usage.has_values():
            return None
        try:
            price = response.cost().total_price
        except (LookupError, ValueError, AssertionError):
            return None
        return Decimal(price).quantize(Decimal("0.000000000001")).normalize()

    async def _ask(self, messages: list[ModelMessage], tools: list[ToolDefinition]) -> ModelResponse:
        give_up_at = time.monotonic() + self._patience.busy
        tries = nonsense = 0
        while True:
            try:
                return await self._once(messages, tools)
            except (ModelAPIError, UnexpectedModelBehavior) as error:
                tries += 1
                nonsense += isinstance(error, UnexpectedModelBehavior)
                pause = self._pause(error, tries) if nonsense < MOST_NONSENSE else None
                if pause is None or time.monotonic() + pause > give_up_at:
                    raise _failed(error) from error
                logger.info("the model is busy, asking again in %.0f s: %s", pause, _short(error))
            await self._wait(pause)

    async def _once(self, messages: list[ModelMessage], tools: list[ToolDefinition]) -> ModelResponse:
        request = asyncio.ensure_future(
            direct.model_request(
                self._opened.model,
                messages,
                model_settings=ModelSettings(timeout=self._patience.answer),
                model_request_parameters=ModelRequestParameters(function_tools=tools),
            )
        )
        try:
            while not request.done():
                await asyncio.wait({request}, timeout=POLL_SECONDS)
                if self._must_stop():
                    raise Interrupted
            return request.result()
        finally:
            request.cancel()

    async def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._must_stop():
                raise Interrupted
            await asyncio.sleep(min(left, POLL_SECONDS))

    def _pause(self, error: Exception, tries: int) -> float | None:
        """Seconds until it is worth asking again, or None where it never is."""
        if isinstance(error, ModelHTTPError):
            if error.status_code not in BUSY:
                return None
            asked = _retry_after(error)
            if asked is not None:
                return asked
        longest = min(self._patience.first_wait * 2.0 ** (tries - 1), self._patience.longest_wait)
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, guards nothing


def _retry_after(error: ModelHTTPError) -> float | None:
    try:
        return max(0.0, min(LONGEST_RETRY_AFTER, float((error.headers or {})["retry-after"])))
    except (KeyError, ValueError):
        return None


def _failed(error: Exception) -> ModelFailed:
    refused = isinstance(error, ModelHTTPError) and error.status_code not in BUSY
    return ModelFailed(f"the model could not be asked: {_short(error)}", retryable=not refused)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:500]
