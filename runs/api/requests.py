"""Reading what callers send: strict, bounded, and each complaint with the field's name."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.http import QueryDict
from rest_framework.request import Request

from runs.domain import strict_json
from runs.domain.errors import (
    IdempotencyKeyMissing,
    Invalid,
    Malformed,
    TooLarge,
    UnsupportedMediaType,
)
from runs.domain.facts import Json, stamp

MAX_BODY_BYTES: Final = 1 << 20
MAX_LIMIT: Final = 200
MAX_WAIT_SECONDS: Final = 30
MAX_TEXTS: Final = 100

_VISIBLE: Final = re.compile(r"[\x21-\x7e]{1,255}")
_JSON: Final = re.compile(r"application/(?:json|[a-z0-9.+-]+\+json)\s*(?:;.*)?", re.IGNORECASE)
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)")
_DIGEST: Final = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]{1,100}):", re.IGNORECASE)


# --- bodies ---------------------------------------------------------------------------------------


def json_object(request: Request) -> Json:
    """The body as a JSON object; an empty body is an empty object.

    Raises ``TooLarge``, ``UnsupportedMediaType``, ``Malformed``.
    """
    length = content_length(request)
    if length > MAX_BODY_BYTES:
        raise TooLarge(limit_bytes=MAX_BODY_BYTES)
    if not length:
        return {}
    if not _JSON.fullmatch(request.META.get("CONTENT_TYPE", "")):
        raise UnsupportedMediaType("Send JSON, with Content-Type: application/json.")
    value = strict_json.parse(request._request.body)  # noqa: SLF001  DRF's own parsers are not strict
    if not isinstance(value, dict):
        raise Malformed("The body must be a JSON object.", pointer="")
    return value


def content_length(request: Request) -> int:
    """The announced size of the body in bytes; 0 where there is none."""
    text = request.META.get("CONTENT_LENGTH") or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0  # noqa: PLR2004


class Fields:
    """Typed reading of a JSON object; ``done`` raises ``Invalid`` with everything that was wrong."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.errors: dict[str, list[str]] = {}

    def text(self, name: str, *, limit: int = 2_000, required: bool = False) -> str:
        """Text of at most ``limit`` characters, "" where it is left out; required text is not blank."""
        value = self.data.get(name)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or (required and not value.strip()):
            self.wrong(name, "is required" if value in (None, "") else "must be text")
            return ""
        if len(value) > limit:
            self.wrong(name, f"must have at most {limit} characters")
        return value

    def choice(self, name: str, options: Sequence[str]) -> str:
        """One of these words."""
        value = self.data.get(name)
        if isinstance(value, str) and value in options:
            return value
        self.wrong(name, f"must be one of: {', '.join(options)}")
        return ""

    def integer(self, name: str, low: int, high: int, *, default: int | None = None) -> int:
        """A whole number in this range."""
        value = self.data.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.wrong(name, f"must be a whole number from {low} to {high}")
        return low

    def flag(self, name: str) -> bool:
        """True or false; false where it is left out."""
        value = self.data.get(name)
        if value is not None and not isinstance(value, bool):
            self.wrong(name, "must be true or false")
        return value is True

    def texts(self, name: str) -> list[str]:
        """A list of texts; empty where it is left out."""
        value = self.data.get(name)
        if value is None:
            return []
        if isinstance(value, list) and len(value) <= MAX_TEXTS and all(isinstance(v, str) for v in value):
            return list(value)
        self.wrong(name, f"must be a list of at most {MAX_TEXTS} texts")
        return []

    def mappings(self, name: str, *, limit: int = MAX_TEXTS) -> list[Json]:
        """A list of objects; empty where it is left out."""
        value = self.data.get(name)
        if value is None:
            return []
        if isinstance(value, list) and len(value) <= limit and all(isinstance(v, dict) for v in value):
            return list(value)
        self.wrong(name, f"must be a list of at most {limit} objects")
        return []

    def mapping(self, name: str) -> Json | None:
        """An object, or None where it is left out."""
        value = self.data.get(name)
        if value is None or isinstance(value, dict):
            return value
        self.wrong(name, "must be an object")
        return None

    def wrong(self, name: str, message: str) -> None:
        """Note one more thing that is not right."""
        self.errors.setdefault(name, []).append(message)

    def done(self) -> None:
        """Raise ``Invalid`` when anything was wrong."""
        if self.errors:
            raise Invalid(self.errors)


# --- headers --------------------------------------------------------------------------------------


def idempotency_key(request: Request, *, required: bool = False) -> str:
    """The Idempotency-Key, bare or as a quoted string; "" where it is optional and not sent."""
    sent = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if sent is None and not required:
        return ""
    return checked_key(sent)


def checked_key(value: Any) -> str:
    """The key itself, or ``IdempotencyKeyMissing``."""
    key = value.strip() if isinstance(value, str) else ""
    if len(key) > 1 and key[0] == key[-1] == '"':
        key = key[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if not _VISIBLE.fullmatch(key):
        raise IdempotencyKeyMissing
    return key


def content_sha256(request: Request) -> str:
    """The SHA-256 (hex) that Content-Digest names (RFC 9530), or ``Invalid``."""
    found = _DIGEST.search(request.META.get("HTTP_CONTENT_DIGEST", ""))
    try:
        digest = base64.b64decode(found[1], validate=True) if found else b""
    except binascii.Error:
        digest = b""
    if len(digest) != 32:  # noqa: PLR2004  bytes of a SHA-256
        raise Invalid({"Content-Digest": ["must be sha-256=:<base64>: of the body"]})
    return digest.hex()


# --- times and queries ----------------------------------------------------------------------------


def moment_stamp(value: Any, field: str) -> str:
    """An RFC 3339 time with an offset as our stamp; "" where it is left out."""
    if value is None:
        return ""
    if isinstance(value, str) and _STAMP.fullmatch(value):
        try:
            return stamp(datetime.fromisoformat(value.upper()))
        except (ValueError, OverflowError):
            pass
    raise Invalid({field: ["must be a time with an offset, such as 2026-07-03T10:20:30Z"]})


class Query:
    """Typed reading of the query string; anything odd is ``Malformed``."""

    def __init__(self, request: Request) -> None:
        self.data: QueryDict = request.query_params

    def text(self, name: str) -> str:
        """Text without control characters; "" where it is left out."""
        value = self.data.get(name) or ""
        if len(value) > 1_000 or not value.isprintable() or "\ufffd" in value:  # noqa: PLR2004
            raise Malformed(f"The query's {name} is not plain text.", parameter=name)
        return value

    def words(self, name: str, known: list[str]) -> list[str]:
        """Several words of a vocabulary: repeated, or separated by commas."""
        given = [
            word.strip() for value in self.data.getlist(name) for word in value.split(",") if word.strip()
        ]
        if unknown := [word for word in given if word not in known]:
            shown = ascii(unknown[0][:50])
            raise Malformed(f"{name} has no value {shown}; known are {', '.join(known)}.", parameter=name)
        return given

    def integer(self, name: str, default: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
        """A whole number; beyond ``high`` it is ``high``."""
        text = self.data.get(name)
        if text is None or text == "":
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) >= low):  # noqa: PLR2004
            raise Malformed(f"The query's {name} must be a whole number from {low}.", parameter=name)
        return min(int(text), high)

    def flag(self, name: str) -> bool:
        """``true`` or ``1``, ``false`` or ``0``; false where it is left out."""
        words = {"": False, "0": False, "false": False, "1": True, "true": True}
        text = self.data.get(name) or ""
        if text.lower() not in words:
            raise Malformed(f"The query's {name} must be true or false.", parameter=name)
        return words[text.lower()]

    @property
    def limit(self) -> int:
        """How many rows: 1 to 200, 50 by default."""
        return self.integer("limit", 50, low=1, high=MAX_LIMIT)

    @property
    def wait_seconds(self) -> int:
        """How long to wait for news: 0 to 30."""
        return self.integer("wait_seconds", 0, high=MAX_WAIT_SECONDS)
