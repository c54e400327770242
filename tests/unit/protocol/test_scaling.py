"""The lag based scaler: when it samples, when it decides, and what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.spec import AutoScaling, LagAggregate
from ingest.supervisor.scaling import LagScaler, aggregated

CONFIG = AutoScaling(
    task_count_min=1,
    task_count_max=8,
    collection_interval_ms=1_000,
    collection_range_ms=3_000,
    start_delay_ms=5_000,
    period_ms=2_000,
    scale_out_threshold=100,
    scale_in_threshold=10,
    scale_out_delay_ms=10_000,
    scale_in_delay_ms=20_000,
)


def fed(*lags: int, config: AutoScaling = CONFIG) -> LagScaler:
    """A scaler whose start delay and first range are over, with these samples."""
    scaler = LagScaler(config)
    assert not scaler.is_sample_due(0)
    for at_ms, lag in enumerate(lags):
        scaler.sample(5_000 + at_ms, {0: lag})
    return scaler


def decided(scaler: LagScaler, current: int, partitions: int = 8, now_ms: int = 8_000) -> int | None:
    return scaler.decide(now_ms, current, partitions, None)


def test_samples_begin_after_the_start_delay_and_come_at_intervals() -> None:
    scaler = LagScaler(CONFIG)
    assert not scaler.is_sample_due(100) and not scaler.is_sample_due(5_099)
    assert scaler.is_sample_due(5_100)
    scaler.sample(5_100, {0: 1})
    assert not scaler.is_sample_due(6_099) and scaler.is_sample_due(6_100)


def test_nothing_is_decided_before_a_whole_range_was_seen_nor_without_a_sample() -> None:
    assert decided(fed(500), 1, now_ms=7_999) is None
    assert decided(fed(500), 1) == 3
    assert decided(fed(), 1) is None


@pytest.mark.parametrize(
    ("lags", "current", "partitions", "wanted"),
    [
        ((100, 0, 0), 1, 8, 3),  # a third of the samples is at the threshold
        ((100, 50, 50, 50), 1, 8, None),  # a quarter is not enough
        ((500,), 7, 8, 8),  # not beyond the bound
        ((500,), 8, 8, None),
        ((500,), 1, 2, 2),  # no more tasks than partitions
        ((500,), 2, 2, None),
        ((10, 10), 4, 8, 3),
        ((10, 11), 4, 8, None),
        ((0,), 1, 8, None),
        ((500, 0, 0, 0), 4, 8, None),  # three of four samples within is not yet nine tenths
    ],
)
def test_the_share_of_samples_decides(lags: tuple[int, ...], current: int, partitions: int, wanted: int | None) -> None:
    assert decided(fed(*lags), current, partitions) == wanted


def test_only_the_newest_samples_count() -> None:
    assert decided(fed(500, 500, 0, 0, 0, 0), 4) == 3, "the range holds four samples"


def test_a_change_empties_the_window_and_the_next_one_waits() -> None:
    scaler = fed(500)
    assert decided(scaler, 1) == 3
    scaler.scaled(8_000)
    assert decided(scaler, 3, now_ms=30_000) is None, "no sample since"
    scaler.sample(10_000, {0: 500})
    assert decided(scaler, 3, now_ms=17_999) is None
    assert scaler.held_back is not None and "10000 ms" in scaler.held_back
    assert decided(scaler, 3, now_ms=20_000) == 5


def test_scaling_in_waits_its_own_time() -> None:
    scaler = fed(0)
    scaler.scaled(0)
    scaler.sample(9_000, {0: 0})
    assert decided(scaler, 3, now_ms=19_999) is None
    assert decided(scaler, 3, now_ms=22_000) == 2


def test_it_decides_once_a_period() -> None:
    scaler = fed(500)
    assert scaler.decide(8_000, 1, 8, "partitions are being moved") is None
    assert scaler.held_back == "3 tasks are wanted, but partitions are being moved"
    assert decided(scaler, 1, now_ms=9_999) is None
    assert decided(scaler, 1, now_ms=10_000) == 3 and scaler.held_back is None


def test_the_steps_are_those_of_the_spec() -> None:
    wide = replace(CONFIG, scale_out_step=5, scale_in_step=4)
    assert decided(fed(500, config=wide), 2) == 7
    assert decided(fed(0, config=wide), 7) == 3
    assert decided(fed(0, config=wide), 3) == 1


@pytest.mark.parametrize(("kind", "lag"), [(LagAggregate.SUM, 12), (LagAggregate.MAX, 9), (LagAggregate.AVERAGE, 4)])
def test_the_lags_of_all_partitions_become_one_number(kind: LagAggregate, lag: int) -> None:
    assert aggregated(kind, {0: 1, 1: 9, 2: 2}) == lag
    assert aggregated(kind, {}) == 0
