"""JSON as it is taken in: one meaning for every reader, and the same again after it was stored.

The standard parser takes more than JSON (NaN, doubled keys, lone surrogates), and some of what JSON
allows does not survive a database. Everything that two readers could see differently is refused.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from runs.domain.errors import Malformed

MAX_DEPTH: Final = 32
_HIGHEST: Final = 2**63 - 1
_LOWEST: Final = -(2**63)
#: From here on a float is written with an exponent and would come back as a whole number.
_WHOLE: Final = 1e16


class _Repeated(dict[str, Any]):
    """An object with a key that was given twice; refused where the walk finds it."""

    key: str


def parse(data: bytes) -> Any:
    """The value of a strict JSON text in UTF-8.

    Raises ``Malformed``; it adds ``pointer`` (RFC 6901) where one value is to blame. -0.0 becomes
    0.0 and floats from 1e16 on become whole numbers, so that what is stored reads as what was sent.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"The body is not UTF-8: byte {error.start}.") from error
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except RecursionError as error:
        raise Malformed(f"The body is nested deeper than {MAX_DEPTH} levels.") from error
    except json.JSONDecodeError as error:
        raise Malformed(f"The body is not JSON: {error.msg} (line {error.lineno}).") from error
    except ValueError as error:
        raise Malformed("A number is too long.") from error
    # Control characters and surrogates can only come by an escape: most bodies have none to look for.
    return _Walk(texts="\\u" in text).value(value, "", 0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: set[str] = set()
    repeated = _Repeated(made)
    repeated.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return repeated


class _Walk:
    """Looks at every value once, refuses what is not strict, and normalises numbers in place."""

    def __init__(self, *, texts: bool) -> None:
        self.texts = texts

    def value(self, value: Any, pointer: str, depth: int) -> Any:
        if isinstance(value, str):
            if self.texts:
                _check_text(value, pointer)
            return value
        if isinstance(value, dict):
            return self._members(value, pointer, depth + 1)
        if isinstance(value, list):
            return self._items(value, pointer, depth + 1)
        if value is None or isinstance(value, bool):
            return value
        return _number(value, pointer)

    def _members(self, value: dict[str, Any], pointer: str, depth: int) -> dict[str, Any]:
        _check_depth(depth, pointer)
        if isinstance(value, _Repeated):
            raise Malformed(
                f"The key {value.key[:100]!a} is given twice.", pointer=_member(pointer, value.key)
            )
        for key, inner in value.items():
            where = _member(pointer, key)
            if self.texts:
                _check_text(key, where)
            value[key] = self.value(inner, where, depth)
        return value

    def _items(self, value: list[Any], pointer: str, depth: int) -> list[Any]:
        _check_depth(depth, pointer)
        for index, inner in enumerate(value):
            value[index] = self.value(inner, f"{pointer}/{index}", depth)
        return value


def _member(pointer: str, key: str) -> str:
    """The pointer to a member; itself sayable, whatever the key holds."""
    plain = key if len(key) < 200 and key.isprintable() else ascii(key[:200])[1:-1]  # noqa: PLR2004
    return f"{pointer}/{plain.replace('~', '~0').replace('/', '~1')}"


def _check_depth(depth: int, pointer: str) -> None:
    if depth > MAX_DEPTH:
        raise Malformed(f"The body is nested deeper than {MAX_DEPTH} levels.", pointer=pointer)


def _check_text(text: str, pointer: str) -> None:
    if "\0" in text:
        raise Malformed("A text holds the character NUL.", pointer=pointer)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Malformed("A text holds half a surrogate pair.", pointer=pointer) from error


def _number(value: float, pointer: str) -> int | float:
    if not math.isfinite(value):
        raise Malformed("A number is not finite.", pointer=pointer)
    if not _LOWEST <= value <= _HIGHEST:
        raise Malformed("A number is beyond 64 bits.", pointer=pointer)
    if isinstance(value, float):
        if value == 0:
            return 0.0
        if abs(value) >= _WHOLE:
            return _checked_whole(int(value), pointer)
    return value


def _checked_whole(value: int, pointer: str) -> int:
    # 2**63 as a float compares equal to a bound that it exceeds as a whole number.
    if not _LOWEST <= value <= _HIGHEST:
        raise Malformed("A number is beyond 64 bits.", pointer=pointer)
    return value
