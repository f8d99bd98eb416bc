"""Repositories from a file: CSV with a line of headings, or JSON, a list of objects. Pure.

Columns: ``name`` and ``url``; optional ``provider``, ``id`` (the forge's own), ``base_branch``, ``archived``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any, Final

from runs.domain import strict_json
from runs.domain.errors import Invalid, Malformed
from runs.domain.importing import Listed
from runs.domain.places import place_of

COLUMNS: Final = ("name", "url", "provider", "id", "base_branch", "archived")
REQUIRED: Final = ("name", "url")
_FLAGS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": None}


def read_import_file(data: bytes, *, is_json: bool) -> list[Listed]:
    """The repositories that the file names. Raises ``Invalid`` with every line that is wrong."""
    rows = _json_rows(data) if is_json else _csv_rows(data)
    wrong: dict[str, list[str]] = {}
    found: list[Listed] = []
    for number, row in rows:
        if said := _wrong(row):
            wrong[f"{'item' if is_json else 'line'} {number}"] = said
        else:
            found.append(_listed(row))
    if wrong:
        raise Invalid(wrong)
    return found


def _json_rows(data: bytes) -> list[tuple[int, Any]]:
    try:
        rows = strict_json.parse(data)
    except Malformed as error:
        raise Invalid({"file": [error.detail]}) from error
    if not isinstance(rows, list):
        raise Invalid({"file": ["must be a list of objects"]})
    return list(enumerate(rows, 1))


def _csv_rows(data: bytes) -> list[tuple[int, Any]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid({"file": [f"is not UTF-8 at byte {error.start}"]}) from error
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="more", strict=True)
    heads = list(reader.fieldnames or [])
    if missing := [name for name in REQUIRED if name not in heads]:
        raise Invalid({"line 1": [f"must name the columns; {', '.join(missing)} is missing"]})
    try:
        return [(reader.line_num, {k: v or "" for k, v in row.items()}) for row in reader]
    except csv.Error as error:
        raise Invalid({f"line {reader.reader.line_num}": [str(error)]}) from error


def _wrong(row: Any) -> list[str]:
    if not isinstance(row, Mapping):
        return ["must be an object"]
    said = [f"{name} is not known; known are {', '.join(COLUMNS)}" for name in row if name not in COLUMNS]
    said += [f"{name} is missing" for name in REQUIRED if not row.get(name)]
    for name in COLUMNS[:-1]:
        value = row.get(name, "")
        if not isinstance(value, str) and not (name == "id" and type(value) is int):
            said.append(f"{name} must be text")
    archived = row.get("archived", "")
    if not isinstance(archived, bool) and str(archived).strip().lower() not in _FLAGS:
        said.append("archived must be true or false")
    return said


def _listed(row: Mapping[str, Any]) -> Listed:
    at = {name: str(row.get(name, "")).strip() for name in COLUMNS}
    place = place_of(at["url"])
    archived = row.get("archived", "")
    return Listed(
        name=at["name"],
        url=at["url"],
        provider=at["provider"] or "git",
        key=f"{place.partition('/')[0]}:{at['id']}" if at["id"] else "",
        place=place,
        base_branch=at["base_branch"],
        archived=archived if isinstance(archived, bool) else _FLAGS[at["archived"].lower()],
    )
