"""What the protocols of providers share: one POST of JSON, and its failures as pydantic-ai names them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import httpx
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import FinishReason, ModelMessage, ModelResponse, ModelResponsePart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from worker.client.protocol import Json

SECONDS = 600.0
CONNECT_SECONDS = 10.0


class Said(NamedTuple):
    """What one answer of a provider says."""

    parts: Sequence[ModelResponsePart]
    usage: RequestUsage
    finish_reason: FinishReason | None


class HttpModel(Model):
    """A model at `url`; its protocol writes the request and reads the answer."""

    path: ClassVar[str]

    def __init__(self, name: str, *, url: str, provider: str, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._name, self._url = name, url.rstrip("/")
        self._provider_name, self._headers = provider, headers

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return self._provider_name

    @property
    def base_url(self) -> str:
        return self._url

    @abstractmethod
    def write(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolDefinition], max_tokens: int | None
    ) -> Json:
        """The body of the request."""

    @abstractmethod
    def read(self, answer: Json) -> Said:
        """May raise KeyError, IndexError, TypeError and AttributeError where the answer has another shape."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        settings = model_settings or {}
        seconds = settings.get("timeout")
        answer = await post_json(
            f"{self._url}{self.path}",
            self.write(messages, model_request_parameters.function_tools, settings.get("max_tokens")),
            headers=self._headers,
            seconds=float(seconds) if isinstance(seconds, int | float) and seconds else SECONDS,
            model=self._name,
        )
        try:
            said = self.read(answer)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise UnexpectedModelBehavior(f"{self._name} answered without a message") from error
        return ModelResponse(
            parts=said.parts,
            usage=said.usage,
            model_name=str(answer.get("model") or self._name),
            provider_name=self._provider_name,
            provider_url=self._url,
            provider_response_id=answer.get("id"),
            finish_reason=said.finish_reason,
        )


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
