"""A supervisor whose tasks cannot read says so after a while, although its own look at the stream goes well."""

from __future__ import annotations

from ingest.offsets import OffsetMap
from ingest.supervisor.health import UNREADABLE_MS, Quiet, Unreadable


def test_a_task_that_cannot_read_for_a_while_is_told_with_its_latest_reason() -> None:
    tasks = Unreadable()
    tasks.heard("a", "no broker", 1_000)
    tasks.heard("b", None, 1_000)
    tasks.heard("a", "no registry", 2_000)
    assert tasks.lasting(1_000 + UNREADABLE_MS - 1) is None
    assert tasks.lasting(1_000 + UNREADABLE_MS) == "no registry"


def test_reading_again_or_ending_takes_it_back() -> None:
    tasks = Unreadable()
    for token in ("a", "b"):
        tasks.heard(token, "no registry", 0)
    tasks.heard("a", None, 1_000)
    tasks.gone("b")
    assert tasks.lasting(10 * UNREADABLE_MS) is None
    tasks.heard("a", "no registry", 20_000)
    assert tasks.lasting(20_000 + UNREADABLE_MS - 1) is None


def test_a_stream_is_quiet_when_it_is_read_to_its_end_and_stays_there() -> None:
    quiet, ends = Quiet(), OffsetMap({0: 10, 1: 5})
    assert not quiet.lasts(ends, [OffsetMap({0: 9}), OffsetMap({1: 5})], 1_000, 0), "not read to its end"
    assert not quiet.lasts(ends, [OffsetMap({0: 9}), OffsetMap({0: 10, 1: 5})], 1_000, 500)
    assert not quiet.lasts(ends, [OffsetMap({0: 10, 1: 5})], 1_000, 1_499)
    assert quiet.lasts(ends, [OffsetMap({0: 10, 1: 5})], 1_000, 1_500)
    grown = OffsetMap({0: 11, 1: 5})
    assert not quiet.lasts(grown, [OffsetMap({0: 10, 1: 5})], 1_000, 9_000)
    assert not quiet.lasts(grown, [OffsetMap({0: 11, 1: 5})], 1_000, 9_500)
    assert quiet.lasts(grown, [OffsetMap({0: 11, 1: 5})], 1_000, 10_500)


def test_a_stream_that_was_not_seen_yet_is_not_quiet() -> None:
    assert not Quiet().lasts(OffsetMap(), [], 0, 0)
