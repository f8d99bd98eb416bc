"""Models by name: `openai:…` (and all that speak its protocol), `anthropic:…`, `scripted`, others.

The first two protocols are spoken here over httpx: the providers' own libraries would take the
worker over its limit of packages. Everything else that pydantic-ai knows works by its name as soon
as its extra is installed. Keys and addresses come from the worker's environment, never from a task:
a task that could name the address could have the key sent there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from worker.client.protocol import Json

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from worker.models.scripted import ScriptedModel

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"


class ModelUnknown(Exception):  # noqa: N818  named by what happened
    """The name leads to no model here; the message says what to do."""


class OpenedModel:
    """A model ready to be asked; `close` ends what was started for it."""

    def __init__(self, model: Model, *, server: ScriptedModel | None = None) -> None:
        self.model = model
        self._server = server

    @property
    def costs_nothing(self) -> bool:
        """Whether its answers are known to be free, which is not the same as of unknown price."""
        return self._server is not None

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


def open_model(name: str, *, variables: Mapping[str, str], script: Json | None = None) -> OpenedModel:
    """Raises ModelUnknown. `script` is what a `scripted` model answers (see `worker.models.scripted`)."""
    provider, _, rest = name.partition(":")
    if provider == "scripted":
        return _scripted(script or {})
    if provider == "openai" and rest:
        from worker.models.openai import OpenAIModel

        url = variables.get("OPENAI_BASE_URL") or OPENAI_URL
        return OpenedModel(OpenAIModel(rest, url=url, key=variables.get("OPENAI_API_KEY", "")))
    if provider == "anthropic" and rest:
        from worker.models.anthropic import AnthropicModel

        key = _needed(variables, "ANTHROPIC_API_KEY", name)
        return OpenedModel(
            AnthropicModel(rest, url=variables.get("ANTHROPIC_BASE_URL") or ANTHROPIC_URL, key=key)
        )
    return _other(name)


def _scripted(script: Json) -> OpenedModel:
    from worker.models.openai import OpenAIModel
    from worker.models.scripted import ScriptedModel

    server = ScriptedModel(script).start()
    return OpenedModel(OpenAIModel("scripted", url=server.url, key="", provider="scripted"), server=server)


def _other(name: str) -> OpenedModel:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        return OpenedModel(infer_model(name))
    except (ImportError, UserError, ValueError) as error:
        raise ModelUnknown(
            f"{name!r} is no model that this worker can ask: {error}. Known without more are openai:NAME,"
            " anthropic:NAME and scripted; others need the extra of pydantic-ai-slim that is named like them."
        ) from error


def _needed(variables: Mapping[str, str], variable: str, name: str) -> str:
    try:
        return variables[variable]
    except KeyError:
        raise ModelUnknown(f"{name!r} needs {variable} in the worker's environment") from None
