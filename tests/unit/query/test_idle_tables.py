"""How often a node reads the metadata of tables that nobody asks, and of those that are asked."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.clock import ManualClock
from query.timeline_cache import ASKED_MS, IDLE_READ_MS, TimelineCache
from segments.cache import SegmentCache
from tests.unit.query.memory_table import MemoryTable


class Followed:
    """A table and the cache that follows it; time stands still until it is moved."""

    def __init__(self, folder: Path, executor: ThreadPoolExecutor) -> None:
        self.table = MemoryTable(folder / "table")
        self.clock = ManualClock()
        cache = SegmentCache(folder / "cache", self.table.storage, 1 << 20)
        self.timeline = TimelineCache(self.table, cache, executor, self.clock)

    def reads_of_a_look(self) -> int:
        before = self.table.reads
        self.timeline.sync(lambda _: None)
        return self.table.reads - before


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[Followed]:
    with ThreadPoolExecutor(1) as executor:
        yield Followed(tmp_path, executor)


def test_a_table_that_nobody_asks_is_read_when_its_version_moves_and_now_and_then(followed: Followed) -> None:
    assert [followed.reads_of_a_look() for _ in range(3)] == [1, 0, 0]
    followed.table.version += 1
    assert [followed.reads_of_a_look() for _ in range(3)] == [1, 0, 0]
    followed.clock.advance(IDLE_READ_MS)
    assert [followed.reads_of_a_look() for _ in range(3)] == [1, 0, 0]


def test_a_table_that_is_asked_is_read_at_every_look(followed: Followed) -> None:
    followed.reads_of_a_look()
    followed.timeline.current("wiki")
    assert [followed.reads_of_a_look() for _ in range(3)] == [1, 1, 1]
    followed.clock.advance(ASKED_MS)
    assert [followed.reads_of_a_look() for _ in range(3)] == [1, 0, 0]


def test_the_first_query_after_a_pause_reads_its_table_afresh(followed: Followed) -> None:
    followed.reads_of_a_look()
    followed.table.version += 1
    at = followed.timeline.current("wiki")
    assert at is not None and at.version == followed.table.version
    reads = followed.table.reads
    followed.timeline.current("wiki")
    assert followed.table.reads == reads


def test_without_the_database_a_known_table_stays_at_what_was_read(followed: Followed) -> None:
    followed.reads_of_a_look()
    version = followed.table.version
    followed.table.version += 1
    followed.table.is_down = True
    at = followed.timeline.current("wiki")
    assert at is not None and at.version == version
