"""Sets up structlog once per process: coloured lines for people or JSON lines for machines, on standard error."""

from __future__ import annotations

import logging
import re
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


KAFKA_LOG = "ingest.stream.kafka"
SAID_AGAIN_S = 60.0
KINDS_MAX = 200


class Sparing(logging.Filter):
    """Lets a message through once a minute, with how often it was held back: librdkafka repeats what it
    cannot do many times a second. Messages that differ in numbers or in
    what was suppressed before are the same."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[str, list[float]] = {}  # when it was last let through, how often not since

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        kind = re.sub(r"\d+", "#", text.partition(" (after ")[0])
        known = self._held.get(kind)
        if known is not None and record.created - known[0] < SAID_AGAIN_S:
            known[1] += 1
            return False
        if known is not None and known[1]:
            record.msg, record.args = f"{text} ({int(known[1])} more since)", ()
        if len(self._held) >= KINDS_MAX:
            self._held.clear()
        self._held[kind] = [record.created, 0]
        return True


def set_up_logging(level: str, style: str) -> None:
    """``level`` is a standard level name in lower case, ``style`` console or json."""
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*common, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Lenient(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    # It warns of every connection that it cannot keep and of every retry; callers report what matters.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    kafka = logging.getLogger(KAFKA_LOG)
    if not any(isinstance(known, Sparing) for known in kafka.filters):
        kafka.addFilter(Sparing())
    # What libraries say through the standard logging, in the same form.
    handler = logging.StreamHandler(cast(TextIO, _Lenient(sys.stderr)))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
