"""Moving averages of a task's counters."""

from __future__ import annotations

import pytest

from ingest.supervisor.rates import MovingAverages


def rate(averages: MovingAverages, window: str, name: str = "processed") -> float:
    return float(averages.document()["buildSegments"][window][name])


def test_nothing_is_known_before_an_interval_has_passed() -> None:
    averages = MovingAverages()
    averages.take(1_000, {"processed": 500})
    averages.take(1_000, {"processed": 600})
    assert averages.document() == {}


def test_the_first_interval_counts_for_every_window_and_later_ones_by_their_share() -> None:
    averages = MovingAverages()
    averages.take(0, {"processed": 0, "unparseable": 0})
    averages.take(2_000, {"processed": 200, "unparseable": 2})
    assert [rate(averages, window) for window in ("1m", "5m", "15m")] == [100, 100, 100]
    assert rate(averages, "1m", "unparseable") == 1 and rate(averages, "1m", "thrownAway") == 0
    averages.take(62_000, {"processed": 200, "unparseable": 2})
    assert rate(averages, "1m") == pytest.approx(36.8, abs=0.1), "a minute without any: a third is left"
    assert rate(averages, "1m") < rate(averages, "5m") < rate(averages, "15m")


def test_a_steady_rate_stays_whatever_the_distance_of_the_beats() -> None:
    averages = MovingAverages()
    for at_ms in (0, 1_000, 1_500, 9_000, 70_000):
        averages.take(at_ms, {"processed": at_ms // 10})
    assert [rate(averages, window) for window in ("1m", "5m", "15m")] == pytest.approx([100, 100, 100])
