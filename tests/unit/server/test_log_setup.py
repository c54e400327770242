"""Logging on a disk that is full: the line is lost, the thread that says it is not."""

from __future__ import annotations

import errno
import io

import pytest
import structlog

from server.log_setup import set_up_logging


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
