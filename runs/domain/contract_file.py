"""A contract written as a file: the same fields as the API's, in JSON or TOML."""

from __future__ import annotations

import json
import tomllib
from typing import Any, Final

from runs.domain.contract import DEFAULTS
from runs.domain.errors import Invalid, Malformed
from runs.domain.facts import Json
from runs.domain.strict_json import parse

MAX_BYTES: Final = 1 << 20


def read_contract(data: bytes) -> Json:
    """The fields that the file gives. Raises ``Invalid``: what is wrong with it, and where."""
    if len(data) > MAX_BYTES:
        raise _invalid(f"is larger than {MAX_BYTES >> 20} MiB")
    found = _parsed(data.removeprefix(b"\xef\xbb\xbf").strip())
    if not isinstance(found, dict):
        raise _invalid("must be a table of fields, not a list or a single value")
    if strange := sorted(set(found) - set(DEFAULTS)):
        known = ", ".join(DEFAULTS)
        raise _invalid(f"has no field {', '.join(strange)}; its fields are {known}")
    return found


def _parsed(data: bytes) -> Any:
    if not data:
        raise _invalid("is empty")
    try:
        if data[:1] in (b"{", b"["):
            return parse(data)
        return json.loads(json.dumps(tomllib.loads(data.decode())))  # dates and numbers as the API has them
    except Malformed as error:
        raise _invalid(f"is no JSON that can be taken: {error.detail}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _invalid(f"is neither JSON nor TOML: {error}") from None
    except (TypeError, ValueError):
        raise _invalid("holds a value that JSON does not have, such as a date; write it as text") from None


def _invalid(text: str) -> Invalid:
    return Invalid({"contract": [text]})


def write_contract(contract: Json) -> bytes:
    """The fields that differ from their defaults, as JSON that ``read_contract`` takes."""
    said = {name: value for name, value in contract.items() if name in DEFAULTS and value != DEFAULTS[name]}
    return json.dumps(said, indent=2, ensure_ascii=False).encode() + b"\n"
