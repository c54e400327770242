"""A metadata database that was replaced by an older copy: named, and never read as if it were the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingest.clock import ManualClock
from query.errors import QueryUnavailable
from query.timeline_cache import TableVersion, TimelineCache
from segments.cache import SegmentCache
from tests.unit.query.memory_table import MemoryTable

OLDER = "replaced by an older copy"


def test_a_version_that_falls_is_named_and_the_table_refused_even_when_it_rises_again(tmp_path: Path) -> None:
    table, moved = MemoryTable(tmp_path / "table"), list[TableVersion]()
    cache = SegmentCache(tmp_path / "cache", table.storage, 1 << 20)
    with ThreadPoolExecutor(1) as executor:
        timeline = TimelineCache(table, cache, executor, ManualClock())
        table.version = 7
        timeline.sync(moved.append)
        assert [version.version for version in moved] == [7]
        table.version = 6
        with pytest.raises(QueryUnavailable, match=f"at version 6.*version 7.*{OLDER}"):
            timeline.sync(moved.append)
        table.version = 7  # the same number, but what it stands for may be something else
        with pytest.raises(QueryUnavailable, match=OLDER):
            timeline.current("wiki")
        with pytest.raises(QueryUnavailable, match=OLDER):
            timeline.refresh("wiki")
    assert len(moved) == 1
