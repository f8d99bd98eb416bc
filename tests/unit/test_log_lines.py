"""A log line is one line: nobody writes further ones, or moves a terminal's cursor, by what they send."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from agentplatform import logs

FORGED = "x\n2026-12-01T00:00:00Z [info] deleted everything\r\x1b[2J\x1b]0;owned\x07\u2028\x9b31m"


class _Forged(str):
    """A key that an error shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the product's own handler writes; the tests' logging is put back afterwards."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:], root.level = kept, level
    logs.configure(level="WARNING", as_json=False)
    root.handlers[:] = kept


def _say(written: io.StringIO, *, as_json: bool) -> str:
    logs.configure(level="INFO", as_json=as_json)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(written)
    log = structlog.get_logger("test.of.lines")
    log.info(FORGED, path=FORGED, reason=[FORGED], person={FORGED: FORGED})
    try:
        raise KeyError(_Forged(FORGED))  # noqa: TRY301  an error whose text somebody sent
    except KeyError:
        logging.getLogger("django.request").exception("Not Found: %s", FORGED)
    return written.getvalue()


@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_logged_forges_no_line_and_moves_no_cursor(written, as_json):
    text = _say(written, as_json=as_json)
    assert "deleted everything" in text, "it is told, as text"
    assert not set(text) & {"\r", "\x1b", "\x07", "\u2028", "\x9b"}
    assert not [line for line in text.splitlines() if line.startswith("2026-12-01T00:00:00Z")]
    if as_json:
        assert [json.loads(line)["level"] for line in text.splitlines()] == ["info", "error"]
