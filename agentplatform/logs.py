"""One way of logging: structlog events and the standard library's records, in one format."""

from __future__ import annotations

import io
import logging.config
import re
from typing import Any, Final, TextIO

import structlog


def configure(*, level: str, as_json: bool) -> None:
    """Log to standard error: JSON lines in production, readable lines in development."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: list[Any] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if as_json
        else [_inert, structlog.dev.ConsoleRenderer(colors=False, exception_formatter=_traceback)]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": shared,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
    }
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"structured": formatter},
            "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "structured"}},
            "loggers": {name: {"level": "WARNING"} for name in ("celery", "httpx", "kombu")},
            "root": {"handlers": ["console"], "level": level},
        }
    )


#: What would begin another line, or speak to the terminal that shows it.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _inert(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    """Texts on one line each, as JSON has them anyway; other values are shown by their ``repr``."""
    return {
        _escaped(name): _escaped(value) if isinstance(value, str) else value for name, value in event.items()
    }


def _traceback(out: TextIO, exc_info: Any) -> None:
    """Indented, so that no line of an error's text looks like a line of the log.

    The default would print local variables, and with them tokens and keys.
    """
    whole = io.StringIO()
    structlog.dev.plain_traceback(whole, exc_info)
    out.writelines(f"  {_escaped(line)}\n" for line in whole.getvalue().splitlines())
