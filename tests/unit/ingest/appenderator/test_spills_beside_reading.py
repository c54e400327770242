"""A merge spills the rest of its sequence on its own thread while the ingest thread goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.appenderator.appenderator import Appenderator
from ingest.appenderator.merging import MergedSequence
from ingest.offsets import OffsetMap
from segments.live import LiveAsk
from segments.parquet.spill import write_spill
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, record_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import PLAIN, allocate, published_rows

SPEC = spec_of(PLAIN, tuning={"maxRowsInMemory": 10})
ROWS = [{"t": OPENED_MS + at, "l": at, "s": f"text {at}"} for at in range(30)]
SEALED = record_of(1, {0: 0}, {0: 8})


def two_sequences(tmp_path: Path) -> Appenderator:
    """The first is read to its end, the second has begun; nothing is on disk."""
    appenderator = Appenderator(tmp_path / "work", 7, "work")
    appenderator.open_sequence(record_of(1), SPEC)
    appenderator.append(1, [poll_of(ROWS[:8])])
    appenderator.open_sequence(SEALED, SPEC)
    appenderator.open_sequence(record_of(2, {0: 8}), SPEC)
    appenderator.append(2, [poll_of(ROWS[8:10], 8)])
    return appenderator


@contextmanager
def merge_held_at_its_spill(
    appenderator: Appenderator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Future[MergedSequence], threading.Event]]:
    """The merge of the first sequence, in a thread that waits in its first spill until it is let go."""
    reached, go_on = threading.Event(), threading.Event()

    def waiting(rows: Any, path: Path) -> int:
        if path.name.startswith("1-"):
            reached.set()
            assert go_on.wait(10)
        return write_spill(rows, path)

    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as publish:
        patched.setattr("ingest.appenderator.sequence_rows.write_spill", waiting)
        merge = publish.submit(appenderator.merge, SEALED, allocate)
        assert reached.wait(10)
        try:
            yield merge, go_on
        finally:
            go_on.set()


def live_longs(appenderator: Appenderator, committed: int = 0) -> list[int]:
    answer = appenderator.live(LiveAsk(1, 7, {0: committed}, {0: 0}))
    chunks = [chunk for sequence in answer.sequences for chunk in sequence.chunks]
    streams = [appenderator.chunk_bytes(chunk.number) for chunk in chunks]
    tables = [pa.ipc.open_stream(data).read_all() for data in streams if data is not None]
    return sorted(number for table in tables for number in table.column("l").to_pylist() if number is not None)


def test_a_merge_takes_what_is_only_in_memory(tmp_path: Path) -> None:
    appenderator = two_sequences(tmp_path)
    assert [row["l"] for row in published_rows(appenderator.merge(SEALED, allocate))] == list(range(8))
    again = Appenderator(tmp_path / "again", 7, "again")
    assert again.restore(tmp_path / "work", {1: SPEC}) == {1: OffsetMap({0: 8}), 2: OffsetMap({0: 8})}
    assert live_longs(again) == list(range(8))


def test_reading_and_spilling_go_on_while_a_merge_spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appenderator = two_sequences(tmp_path)
    with merge_held_at_its_spill(appenderator, monkeypatch) as (merge, go_on):
        appenderator.append(2, [poll_of(ROWS[10:30], 10)])
        assert appenderator.maintain(0), "the second sequence is due by rows"
        assert [path.name[:2] for path in (tmp_path / "work").glob("*.arrow")] == ["2-"]
        assert live_longs(appenderator) == list(range(30))
        go_on.set()
        assert [row["l"] for row in published_rows(merge.result(10))] == list(range(8))
    assert live_longs(appenderator) == list(range(30))
    again = Appenderator(tmp_path / "again", 7, "again")
    assert again.restore(tmp_path / "work", {1: SPEC}) == {1: OffsetMap({0: 8}), 2: OffsetMap({0: 30})}


def test_a_persist_waits_for_a_spill_that_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appenderator = two_sequences(tmp_path)
    with merge_held_at_its_spill(appenderator, monkeypatch) as (_, go_on), ThreadPoolExecutor(1) as ingest:
        persist = ingest.submit(appenderator.persist)
        go_on.set()
        persist.result(10)
        again = Appenderator(tmp_path / "again", 7, "again")
        assert again.restore(tmp_path / "work", {1: SPEC}) == {1: OffsetMap({0: 8}), 2: OffsetMap({0: 10})}


def test_a_sequence_dropped_while_it_is_spilled_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appenderator = two_sequences(tmp_path)
    with merge_held_at_its_spill(appenderator, monkeypatch) as (merge, go_on):
        appenderator.drop(1)
        go_on.set()
        merge.exception(10)  # whatever becomes of it, the task machine has forgotten the sequence
    assert [path.name for path in (tmp_path / "work").iterdir() if path.suffix != ".json"] == []
    assert live_longs(appenderator, committed=8) == [8, 9]
