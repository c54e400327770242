"""Sets up structlog once per process: coloured lines for people or JSON lines for machines, on standard error."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TextIO, cast

import structlog
from structlog.typing import Processor


class _Lenient:
    """A stream that takes every line, also while its disk is full: no thread may die of what it has to say."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


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
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Lenient(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    # It warns of every connection that it cannot keep and of every retry; callers report what matters.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
