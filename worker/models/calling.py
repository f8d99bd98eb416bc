"""One JSON call to a provider, and its failures as pydantic-ai names them."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior

from worker.client.protocol import Json

CONNECT_SECONDS = 10.0


async def post_json(url: str, body: Json, *, headers: Mapping[str, str], seconds: float, model: str) -> Json:
    """The answer as an object. Raises ModelHTTPError, ModelAPIError or UnexpectedModelBehavior."""
    # Plain HTTP is a server beside this worker: no proxy leads there, and it has no certificate.
    plain = url.startswith("http://")
    timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS)
    try:
        async with httpx.AsyncClient(timeout=timeout, trust_env=not plain, verify=not plain) as client:
            response = await client.post(url, json=body, headers=dict(headers))
    except httpx.HTTPError as error:
        raise ModelAPIError(model, f"{type(error).__name__}: {error}") from error
    if not response.is_success:
        raise ModelHTTPError(
            response.status_code,
            model,
            response.text[:2000],
            headers={name.lower(): value for name, value in response.headers.items()},
        )
    try:
        answer = response.json()
    except ValueError as error:
        raise UnexpectedModelBehavior(f"{model} did not answer with JSON") from error
    if not isinstance(answer, dict):
        raise UnexpectedModelBehavior(f"{model} did not answer with a JSON object")
    return answer
