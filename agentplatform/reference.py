"""The API's description: OpenAPI for machines, the same as a plain page for people."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agentplatform.problem import STATUS, Internal, MethodNotAllowed, title_of
from runs.api.schema import openapi, openapi_text
from runs.domain.errors import Refusal, all_refusals

Json = dict[str, Any]
_METHODS = ("get", "post", "patch", "delete")


@require_safe
def schema(request: HttpRequest) -> HttpResponse:
    """OpenAPI 3.1, as YAML; as JSON for ``?format=json`` or whoever accepts only that."""
    wants_json = request.GET.get("format") == "json" or request.headers.get("Accept") == "application/json"
    kind = "application/vnd.oai.openapi"
    if wants_json:
        return HttpResponse(json.dumps(_document()), content_type=f"{kind}+json;version=3.1")
    return HttpResponse(_text(), content_type=f"{kind};version=3.1")


@require_safe
def reference(request: HttpRequest) -> HttpResponse:
    """The page: every call, every shape, every problem. Server-side, from the same document."""
    return render(request, "api/reference.html", _page())


@functools.cache
def _document() -> Json:
    """It cannot change while the process lives."""
    return openapi()


@functools.cache
def _text() -> str:
    return openapi_text()


@functools.cache
def _page() -> Json:
    document = _document()
    calls = [call for path, item in document["paths"].items() for call in _calls(path, item)]
    tags = list(dict.fromkeys(call["tag"] for call in calls))
    components = document["components"]["schemas"].items()
    return {
        "groups": [{"tag": tag, "calls": [call for call in calls if call["tag"] == tag]} for tag in tags],
        "shapes": [{"name": name, **_shape(shape)} for name, shape in components],
        "problems": list(_problems()),
    }


def _calls(path: str, item: Json) -> Iterator[Json]:
    for method in _METHODS:
        if (operation := item.get(method)) is None:
            continue
        body = operation.get("requestBody", {}).get("content", {})
        yield {
            "id": operation["operationId"],
            "tag": operation["tags"][0],
            "method": method.upper(),
            "path": path,
            "summary": operation["summary"],
            "parameters": [_parameter(one) for one in operation["parameters"]],
            "body": [_named(media["schema"]) for media in body.values()],
            "answers": [
                {"status": status, **_answer(answer)}
                for status, answer in operation["responses"].items()
                if status.startswith("2")
            ],
        }


def _parameter(one: Json) -> Json:
    more = one.get("description", "") or one["schema"].get("description", "")
    return {"name": one["name"], "place": one["in"], "required": one.get("required", False),
            "type": _words(one["schema"]), "more": more}  # fmt: skip


def _answer(answer: Json) -> Json:
    content = answer.get("content", {})
    shapes = [_named(media["schema"]) for media in content.values()]
    return {"text": answer["description"], "shapes": shapes}


def _named(schema: Json) -> Json:
    """A link to a shape where it has a name, else words."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return {"name": name, "words": name or _words(schema)}


def _shape(schema: Json) -> Json:
    required = set(schema.get("required", ()))
    fields = [
        {
            "name": name,
            "type": _words(inner),
            "required": name in required,
            "more": inner.get("description", ""),
        }
        for name, inner in schema.get("properties", {}).items()
    ]
    words = "" if fields or schema.get("type") == "object" else _words(schema)
    return {"fields": fields, "words": words, "more": schema.get("description", "")}


def _words(schema: Json) -> str:
    """The type of a value in words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if options := schema.get("oneOf"):
        return " or ".join(_words(option) for option in options)
    if "const" in schema:
        return f"“{schema['const']}”"
    if "enum" in schema:
        return " | ".join(str(word) for word in schema["enum"])
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind or "anything"]
    return " or ".join(_plain(one, schema) for one in kinds)


def _plain(kind: str, schema: Json) -> str:
    if kind == "array":
        return f"list of {_words(schema.get('items', {}))}"
    if kind == "object" and schema.get("properties"):
        inner = ", ".join(f"{name}: {_words(field)}" for name, field in schema["properties"].items())
        return "{" + inner + "}"
    named = {"string": "text", "integer": "whole number", "boolean": "true or false", "date-time": "time"}
    return named.get(schema.get("format", ""), named.get(kind, kind))


def _problems() -> Iterator[Json]:
    own: list[type[Refusal]] = [MethodNotAllowed, Internal]
    known = {refusal.code: refusal for refusal in (*all_refusals(), *own)}
    for code, status in STATUS.items():
        message = (known[code].__doc__ or "").strip().splitlines()[0]
        yield {"code": code, "status": status, "title": title_of(code), "message": message}
