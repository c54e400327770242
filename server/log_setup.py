"""Sets up structlog once per process: coloured lines for people or JSON lines for machines, on standard error."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import Processor


def set_up_logging(level: str, style: str) -> None:
    """``level`` is a standard level name in lower case, ``style`` console or json."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # It warns of every connection that it cannot keep and of every retry; callers report what matters.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
