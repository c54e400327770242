"""The development broker's log: what was answered is there after a kill, a torn tail is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.devbroker.batches import CORRUPT, INVALID_RECORD, OLD_FORMAT, TOO_LARGE, BadBatch, header, records
from server.devbroker.log import PartitionLog, Refused
from tests.unit.server.record_batches import batch

LARGEST = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0.log"


@pytest.fixture
def log(path: Path) -> Iterator[PartitionLog]:
    opened = PartitionLog(path)
    yield opened
    opened.close()


def append(log: PartitionLog, data: bytes) -> int:
    return log.append(memoryview(data), LARGEST)


def reopened(path: Path, start: tuple[int, int] = (0, 0)) -> PartitionLog:
    """As after kill -9: the first log is never closed."""
    return PartitionLog(path, start)


def offsets(log: PartitionLog, first: int, max_bytes: int = 1 << 20) -> list[int]:
    data, out = log.read(first, max_bytes), []
    while data:
        size = header(data).size
        out += [offset for offset, _ in records(data[:size])]
        data = data[size:]
    return out


def test_offsets_are_given_in_order_and_read_back(log: PartitionLog) -> None:
    assert [append(log, batch([b"x"] * n)) for n in (1, 3, 2)] == [0, 1, 4]
    assert log.next_offset == 6
    assert offsets(log, 0) == [0, 1, 2, 3, 4, 5]
    assert offsets(log, 2) == [1, 2, 3, 4, 5], "the batch that holds the offset comes whole"
    assert log.read(6, 100) == b"" and log.read(-1, 100) == b""


def test_at_least_one_batch_is_read_whatever_the_limit(log: PartitionLog) -> None:
    append(log, batch([b"x" * 1000]))
    append(log, batch([b"y" * 1000]))
    assert offsets(log, 0, max_bytes=1) == [0]


def test_any_offset_is_found_among_many_batches(log: PartitionLog, path: Path) -> None:
    for _ in range(400):
        append(log, batch([b"x" * 100, b"y"]))
    for opened in (log, reopened(path)):
        assert [offsets(opened, offset, 1)[0] for offset in (0, 1, 399, 400, 798, 799)] == [0, 0, 398, 400, 798, 798]


@pytest.mark.parametrize("cut", [1, 20, 60, 70])
def test_a_torn_tail_is_cut_off(log: PartitionLog, path: Path, cut: int) -> None:
    append(log, batch([b"whole"]))
    size = path.stat().st_size
    append(log, batch([b"torn" * 10]))
    os.truncate(path, size + cut)
    again = reopened(path)
    assert (again.next_offset, path.stat().st_size) == (1, size)
    assert append(again, batch([b"next"])) == 1
    assert offsets(again, 0) == [0, 1]


def test_a_tail_of_the_right_length_and_wrong_content_is_cut_off(log: PartitionLog, path: Path) -> None:
    append(log, batch([b"whole"]))
    size = path.stat().st_size
    append(log, batch([b"torn" * 10]))
    with path.open("r+b") as file:
        file.seek(size + 80)
        file.write(b"\0\0\0\0")
    assert reopened(path).next_offset == 1


def test_the_first_record_at_or_after_a_time_is_found(log: PartitionLog) -> None:
    for codec in range(5):
        base = 10_000 * codec
        append(log, batch([b"a", b"b", b"c"], times_ms=[base + 100, base + 300, base + 200], codec=codec))
    for codec in range(5):
        base, first = 10_000 * codec, 3 * codec
        assert log.by_time(base + 101) == (first + 1, base + 300)
        assert log.by_time(base + 100) == (first, base + 100)
    assert log.by_time(10_000 * 5) == (-1, -1)
    assert log.latest_time() == (13, 40_300)


def test_a_late_record_does_not_hide_an_earlier_one(log: PartitionLog) -> None:
    for time_ms in (500, 100, 900, 50):
        for _ in range(100):
            append(log, batch([b"x" * 100], times_ms=[time_ms]))
    assert log.by_time(100) == (0, 500)
    assert log.by_time(501) == (200, 900)


def test_a_batch_sent_again_is_written_once(log: PartitionLog, path: Path) -> None:
    first = batch([b"a", b"b"], producer=(7, 0, 0))
    assert append(log, first) == 0
    assert append(log, batch([b"c"], producer=(7, 0, 2))) == 2
    for opened in (log, reopened(path)):
        assert append(opened, first) == 0
        assert opened.next_offset == 3
        with pytest.raises(Refused):
            append(opened, batch([b"gap"], producer=(7, 0, 9)))
    assert append(log, batch([b"d"], producer=(7, 1, 0))) == 3, "a newer epoch starts anew"
    with pytest.raises(Refused):
        append(log, batch([b"zombie"], producer=(7, 0, 3)))


def test_a_log_begins_where_it_was_told_also_after_a_restart(log: PartitionLog, path: Path) -> None:
    for _ in range(300):
        append(log, batch([b"x" * 200, b"y"]))
    start = log.start_at(301)
    log.punch()
    again = reopened(path, start)
    for opened in (log, again):
        assert (opened.start_offset, opened.next_offset) == (301, 600)
        assert opened.read(300, 100) == b""
        assert offsets(opened, 301, 1) == [300, 301]
        assert opened.by_time(0)[0] == 301
    assert append(again, batch([b"z"])) == 600


def test_a_log_emptied_to_its_end_goes_on_counting(log: PartitionLog, path: Path) -> None:
    append(log, batch([b"a", b"b"]))
    start = log.start_at(2)
    log.punch()
    again = reopened(path, start)
    assert (again.start_offset, again.next_offset) == (2, 2)
    assert append(again, batch([b"c"])) == 2


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", CORRUPT),
        (b"\0" * 30, OLD_FORMAT),
        (batch([b"x"])[:-1], CORRUPT),
        (batch([b"x"]) + b"\1" * 5, CORRUPT),
        (batch([b"x"], attributes=0x10), INVALID_RECORD),
        (batch([b"x"], attributes=0x20), INVALID_RECORD),
        (batch([b"x" * LARGEST]), TOO_LARGE),
    ],
)
def test_what_cannot_be_stored_is_refused_whole(log: PartitionLog, data: bytes, code: int) -> None:
    for sent in (data, batch([b"good"]) + data) if data else (data,):
        with pytest.raises(BadBatch) as caught:
            append(log, sent)
        assert caught.value.code == code
    assert log.next_offset == 0 and log.size == 0
