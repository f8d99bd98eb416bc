"""One way of logging: structlog events and the standard library's records, in one format."""

from __future__ import annotations

import logging.config
from typing import Any

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
        else [
            # The default traceback prints local variables, and with them tokens and keys.
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
        ]
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
