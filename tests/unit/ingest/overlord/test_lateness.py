"""Duties that miss their turns are counted at each and told once a minute."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.overlord import duties
from ingest.overlord.duties import Duties, Sweeper
from ingest.overlord.lateness import TOLD_EVERY_MS, Late, Lateness
from ingest.overlord.served import ServedVersions
from ingest.overlord.tally import Tally
from segments.storage.memory import MemoryDeepStorage


def test_skipped_turns_are_told_once_a_minute_with_how_late_and_how_many() -> None:
    clock = ManualClock()
    late = Lateness(clock)
    late.begun("sweep")
    clock.advance(500)
    assert late.skipped("sweep") == Late("sweep", 1, 500)
    clock.advance(500)
    assert late.skipped("sweep") is None
    assert late.skipped("lag report") == Late("lag report", 1, None), "each for itself; the scheduler was late"
    late.ended("sweep")
    clock.advance(TOLD_EVERY_MS)
    assert late.skipped("sweep") == Late("sweep", 2, None)


def test_a_duty_that_takes_long_is_counted_and_the_schedulers_own_lines_are_not_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(duties, "OTHERS_EVERY_S", 0.02)
    clock, store, tally = ManualClock(), MemoryMetadataStore(), Tally()
    skipped, go_on = threading.Event(), threading.Event()

    def on_skipped(duty: str) -> None:
        tally.skipped(duty)
        if tally.skips()[duty] >= 3:
            skipped.set()

    others: dict[str, Any] = {"slow": lambda: go_on.wait(10)}
    sweeper = Sweeper(store, MemoryDeepStorage(), 1, clock)
    running = Duties(store, ServedVersions(store, clock), sweeper, dict, clock, others)
    running.on_skipped = on_skipped
    with caplog.at_level(logging.WARNING), capture_logs() as told:
        running.start()
        assert skipped.wait(10)
        go_on.set()
        running.stop()
    assert tally.skips()["slow"] >= 3
    assert [line for line in told if line["event"] == "duty late" and line["duty"] == "slow"] == [
        {"event": "duty late", "log_level": "warning", "duty": "slow", "running_s": 0.0, "turns_skipped": 1}
    ]
    assert not caplog.records
