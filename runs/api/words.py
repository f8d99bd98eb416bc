"""JSON Schema in few words: what the descriptions of shapes and bodies are written with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from runs.domain.facts import Json

TEXT: Final[Json] = {"type": "string"}
FLAG: Final[Json] = {"type": "boolean"}
WHOLE: Final[Json] = {"type": "integer"}
NUMBER: Final[Json] = {"type": "number"}
TIME: Final[Json] = {"type": "string", "format": "date-time"}
SHA256: Final[Json] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
MONEY: Final[Json] = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$", "description": "US dollars"}
ANY_OBJECT: Final[Json] = {"type": "object", "additionalProperties": True}


def ref(name: str) -> Json:
    """A component."""
    return {"$ref": f"#/components/schemas/{name}"}


def one_of(words: Iterable[Any]) -> Json:
    """One word of a vocabulary."""
    return {"type": "string", "enum": [str(word) for word in words]}


def many(schema: Json) -> Json:
    """A list."""
    return {"type": "array", "items": schema}


def mapping(schema: Json) -> Json:
    """An object whose names are free."""
    return {"type": "object", "additionalProperties": schema}


def or_null(schema: Json) -> Json:
    """That, or null."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"oneOf": [schema, {"type": "null"}]}


def an_id(prefix: str) -> Json:
    """A prefixed ULID."""
    return {"type": "string", "pattern": f"^{prefix}_[0-9A-HJKMNP-TV-Z]{{26}}$"}


def shape(**fields: Json) -> Json:
    """An answer: every field is always there; more may come with later versions."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def body(*required: str, **fields: Json) -> Json:
    """A request: unknown fields are ignored."""
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": True}


def page_of(name: str) -> Json:
    """One page of a list."""
    address = or_null({"type": "string", "format": "uri"})
    return shape(results=many(ref(name)), next=address, previous=address)
