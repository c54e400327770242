"""Logging: one form for all lines, nothing said too often; on a full disk the line is lost, its thread is not."""

from __future__ import annotations

import errno
import io
import json
import logging

import pytest
import structlog

from server.log_setup import KAFKA_LOG, SAID_AGAIN_S, Sparing, set_up_logging


class Full(io.StringIO):
    """What a log file on a full disk is."""

    tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_line_that_cannot_be_written_breaks_nothing(style: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, full = structlog.get_config(), Full()
    try:
        with monkeypatch.context() as patch:
            patch.setattr("sys.stderr", full)
            set_up_logging("info", style)
            structlog.get_logger().info("nobody hears this", number=1)
    finally:
        structlog.configure(**before)
    assert full.tried > 0


def test_what_libraries_say_has_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    before, page = structlog.get_config(), io.StringIO()
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.getLogger(KAFKA_LOG), "filters", [])
    try:
        monkeypatch.setattr("sys.stderr", page)
        set_up_logging("info", "json")
        logging.getLogger("apscheduler.scheduler").warning("run time of %s was missed", "lag")
    finally:
        structlog.configure(**before)
    line = json.loads(page.getvalue())
    assert line["event"] == "run time of lag was missed"
    assert (line["level"], line["logger"]) == ("warning", "apscheduler.scheduler") and line["timestamp"]


def test_a_client_that_repeats_itself_is_heard_once_a_minute() -> None:
    sparing, heard = Sparing(), []
    for tenth in range(3 * int(SAID_AGAIN_S) * 10):
        again = ", 1 identical error(s) suppressed" if tenth % 2 else ""
        text = f"FAIL [rdkafka#consumer-1] [thrd:b:9092/1]: Connect failed (after {tenth}ms in state CONNECT{again})"
        record = logging.LogRecord(KAFKA_LOG, logging.ERROR, "", 0, "%s", (text,), None)
        record.created = tenth / 10
        if sparing.filter(record):
            heard.append(record.getMessage())
    assert len(heard) == 3
    assert heard[1].endswith("(599 more since)")
    other = logging.LogRecord(KAFKA_LOG, logging.ERROR, "", 0, "something else", None, None)
    assert sparing.filter(other)
