"""Every answer is held against the published schema: status, media type, and exactly its fields."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from runs.api.schema import openapi

Json = dict[str, Any]
#: Answers of no endpoint: the address or the method is not there.
UNROUTED = {404, 405}


def check(method: str, path: str, response: Any) -> None:
    """Fail when an answer below ``/api/v1/`` is not as documented."""
    operation = _operation(method.lower(), path.partition("?")[0])
    if operation is None:
        assert response.status_code in UNROUTED, f"{method} {path} is not in the schema"
        return
    documented = operation["responses"].get(str(response.status_code))
    assert documented or response.status_code in {405, 500}, f"{method} {path} answers {response.status_code}"
    content = (documented or {}).get("content", {})
    if not content:
        return
    kind = response["Content-Type"]
    assert kind in content, f"{method} {path} answers {kind}"
    if kind.endswith("json"):
        schema = json.dumps(content[kind]["schema"], sort_keys=True)
        errors = list(_validator(schema).iter_errors(json.loads(response.content)))
        assert not errors, f"{method} {path}: {errors[0].json_path} {errors[0].message}"


@functools.cache
def _document() -> Json:
    return openapi()


@functools.cache
def _routes() -> list[tuple[re.Pattern[str], Json]]:
    def pattern(path: str) -> re.Pattern[str]:
        # The name of a repository or an operation may hold slashes; an id never does.
        named = re.sub(r"\\{(repository|operation_id)\\}", ".+", re.escape(path))
        return re.compile(re.sub(r"\\{\w+\\}", r"[a-z]+_[0-9A-Z]{26}", named))

    return [(pattern(path), item) for path, item in _document()["paths"].items()]


def _operation(method: str, path: str) -> Json | None:
    for pattern, item in _routes():
        if pattern.fullmatch(path) and method in item:
            operation: Json = item[method]
            return operation
    return None


@functools.cache
def _validator(schema: str) -> Draft202012Validator:
    components = {name: _closed(inner) for name, inner in _document()["components"]["schemas"].items()}
    return Draft202012Validator({**json.loads(schema), "components": {"schemas": components}})


def _closed(schema: Any) -> Any:
    """Answers may grow, but only together with the schema: here no field may be unknown."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: inner if name == "required" else _closed(inner) for name, inner in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        closed["unevaluatedProperties"] = False
    return closed
