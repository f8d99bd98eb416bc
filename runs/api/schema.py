"""OpenAPI 3.1 from the code: each endpoint says what it takes and gives, the rest is read from its view.

``says`` stands on a view's method; ``Describe`` turns it into an operation for drf-spectacular.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from drf_spectacular.authentication import TokenScheme
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry, ResolvedComponent
from drf_spectacular.renderers import OpenApiYamlRenderer

from runs.api.words import one_of, ref
from runs.domain.facts import Json

F = TypeVar("F", bound=Callable[..., Any])
PROBLEM_TYPE: Final = "application/problem+json"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Says:
    """What one method of a view takes and gives. ``answer`` and ``body`` name components."""

    answer: str = ""
    status: int = 200
    also: tuple[int, ...] = ()  #: further successes: 200 with the same answer, 204 without one
    body: str = ""
    query: dict[str, Json] | None = None
    headers: tuple[str, ...] = ()
    is_list: bool = False
    is_bytes: bool = False
    media: str = "application/octet-stream"  #: of bytes in the answer


def says(**what: Any) -> Callable[[F], F]:
    """Describe a view's method for the schema."""

    def mark(method: F) -> F:
        method.says = Says(**what)  # type: ignore[attr-defined]
        return method

    return mark


def openapi() -> Json:
    """The whole document."""
    generated: Json = _Generator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return generated


def openapi_text() -> str:
    """The same as YAML, always in the same order: what ``docs/openapi.yaml`` holds."""
    text: bytes = OpenApiYamlRenderer().render(openapi(), renderer_context={})  # type: ignore[no-untyped-call]
    return text.decode()


class _Generator(SchemaGenerator):
    def get_schema(self, request: Any = None, public: bool = False) -> Json:  # noqa: FBT001, FBT002  as overridden
        """The document, with every component, named by somebody or not."""
        from runs.api.bodies import BODIES
        from runs.api.components import ANSWERS, PAGES

        for name, schema in deepcopy({**ANSWERS, **PAGES, **BODIES}).items():
            component = ResolvedComponent(name, "schemas", schema=schema, object=name)  # type: ignore[no-untyped-call]
            self.registry.register_on_missing(component)
        document: Json = super().get_schema(request, public)  # type: ignore[no-untyped-call]
        return document


# --- operations -----------------------------------------------------------------------------------

_HEADERS: Final[dict[str, Json]] = {
    "Idempotency-Key": {
        "description": "1 to 255 visible ASCII characters, bare or as a quoted string.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 257},
    },
    "Lease-Token": {
        "description": "The secret of the active lease, from the answer to the claim.",
        "schema": {"type": "string"},
    },
    "Content-Digest": {
        "description": "RFC 9530, of the body.",
        "schema": {"type": "string", "pattern": "sha-256=:[A-Za-z0-9+/]{43}=:"},
    },
    "Artifact-Kind": {"description": "What the bytes are evidence of.", "schema": {"type": "string"}},
}
_REQUIRED: Final = frozenset({"Idempotency-Key!", "Lease-Token!", "Content-Digest!", "Artifact-Kind!"})
_PAGING: Final[dict[str, Json]] = {
    "limit": {"type": "integer", "minimum": 1, "default": 50, "description": "at most 200"},
    "cursor": {"type": "string"},
}
_PROBLEMS: Final[dict[int, str]] = {
    400: "The request is malformed.",
    401: "Nobody that is known here calls.",
    403: "The caller may not do this.",
    404: "There is nothing here, or it is not the caller's to know.",
    429: "Too many requests; see Retry-After.",
    503: "The control plane cannot answer just now; see Retry-After.",
}
_OF_CHANGES: Final[dict[int, str]] = {
    409: "Not in the present state.",
    413: "The body is too large.",
    415: "The body is not of a type that is understood.",
    422: "Some of it is not right; each field is named.",
}
_SUCCESS: Final = {200: "Done; or done before, and answered again.", 201: "Made.", 204: "Nothing to say."}


class Describe(AutoSchema):
    """One view's operations, from ``says`` and the docstrings."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: ComponentRegistry
    ) -> Json:
        """The operation object."""
        self.registry, self.path, self.method = registry, path, method
        handler = getattr(self.view, method.lower())
        what: Says = handler.says
        operation: Json = {
            "operationId": _operation_id(path, method),
            "summary": (handler.__doc__ or "").strip().splitlines()[0],
            "tags": [path.removeprefix("/api/v1/").partition("/")[0]],
            "parameters": [*_in_path(path), *_in_query(what), *_in_headers(what)],
            "security": self.get_auth(),
            "responses": _responses(what, method),
        }
        if what.body:
            content = {"application/json": {"schema": ref(what.body)}}
            operation["requestBody"] = {"content": content}
        elif what.is_bytes and method == "POST":
            content = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
            operation["requestBody"] = {"required": True, "content": content}
        return operation


def _operation_id(path: str, method: str) -> str:
    words = re.sub(r"[{}]", "", path.removeprefix("/api/v1/")).replace("-", "_").split("/")
    return "_".join([method.lower(), *words])


def _in_path(path: str) -> list[Json]:
    return [
        {"in": "path", "name": name, "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(path)
    ]


def _in_query(what: Says) -> list[Json]:
    fields = {**(what.query or {}), **(_PAGING if what.is_list else {})}
    return [{"in": "query", "name": name, "schema": schema} for name, schema in fields.items()]


def _in_headers(what: Says) -> list[Json]:
    return [
        {
            "in": "header",
            "name": name.rstrip("!"),
            "required": name in _REQUIRED,
            **_HEADERS[name.rstrip("!")],
        }
        for name in what.headers
    ]


def _responses(what: Says, method: str) -> Json:
    problems = {**_PROBLEMS, **(_OF_CHANGES if method != "GET" else {})}
    content = {PROBLEM_TYPE: {"schema": ref("Problem")}}
    return {
        **{str(status): _success(what, status) for status in (what.status, *what.also)},
        **{
            str(status): {"description": text, "content": content}
            for status, text in sorted(problems.items())
        },
    }


def _success(what: Says, status: int) -> Json:
    answer: Json = {"description": _SUCCESS[status]}
    if status == 204:  # noqa: PLR2004  no content
        return answer
    if what.is_bytes and not what.answer:
        return {**answer, "content": {what.media: {"schema": {"type": "string"}}}}
    return {**answer, "content": {"application/json": {"schema": ref(what.answer)}}}


def words_of(words: Any) -> Json:
    """A filter that takes several words of a vocabulary, separated by commas."""
    known = one_of(words)["enum"]
    return {"type": "array", "items": {"type": "string", "enum": known}}


# --- who calls ------------------------------------------------------------------------------------


class _Token(TokenScheme):  # type: ignore[no-untyped-call]
    target_class = "runs.api.authentication.TokenAuthentication"
    name = "token"
    match_subclasses = False
    priority = 0

    def get_security_definition(self, auto_schema: AutoSchema) -> Json:
        return {"type": "http", "scheme": "bearer", "description": "Of a worker account or a person."}


class _Session(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "runs.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> Json:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": "With X-CSRFToken."}
