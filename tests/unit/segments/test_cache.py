"""The segment cache: one pull per file, proved bytes, a limit that holds, pins, restarts."""

import hashlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from segments.cache import SegmentCache
from segments.data_segment import DataSegment, LoadSpec
from segments.errors import (
    CacheFull,
    SegmentCorrupt,
    SegmentNotFound,
    SegmentTooLarge,
    StorageMisconfigured,
    StorageUnavailable,
)
from segments.identity import DataSource, SegmentId
from segments.interval import Interval
from segments.schema import SegmentSchema
from segments.storage.memory import MemoryDeepStorage


class CountingStorage(MemoryDeepStorage):
    """Counts pulls, and holds them back until told."""

    def __init__(self) -> None:
        super().__init__()
        self.pulls = 0
        self.gate = threading.Event()
        self.gate.set()

    def pull(self, load_spec: LoadSpec, dest: Path) -> None:
        self.pulls += 1
        assert self.gate.wait(10)
        super().pull(load_spec, dest)


@pytest.fixture
def storage() -> CountingStorage:
    return CountingStorage()


def stored(storage: MemoryDeepStorage, tmp_path: Path, number: int, size_bytes: int = 100) -> DataSegment:
    content = bytes([number]) * size_bytes
    (tmp_path / "source").write_bytes(content)
    return DataSegment(
        id=SegmentId(DataSource("t"), Interval(0, 1), "v", number),
        rows=1,
        size_bytes=size_bytes,
        schema=SegmentSchema.of([]),
        load_spec=storage.push(tmp_path / "source", f"t/{number}"),
        min_time_ms=0,
        max_time_ms=0,
        offsets=(),
        checksum=hashlib.sha256(content).hexdigest(),
        spec_version=1,
        sequence="s",
        input_rows=1,
    )


def test_a_segment_is_pulled_once(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 1000)
    segment = stored(storage, tmp_path, 1)
    assert cache.get(segment).read_bytes() == b"\x01" * 100
    assert cache.get(segment) == cache.get(segment)
    assert (storage.pulls, cache.used_bytes) == (1, 100)


def test_many_threads_share_one_pull(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 1000)
    segment, paths = stored(storage, tmp_path, 1), []
    storage.gate.clear()
    threads = [threading.Thread(target=lambda: paths.append(cache.get(segment))) for _ in range(8)]
    for thread in threads:
        thread.start()
    storage.gate.set()
    for thread in threads:
        thread.join(10)
    assert len(paths) == 8 and storage.pulls == 1


def test_the_least_recently_used_goes_first_and_the_limit_holds(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 300)
    segments = [stored(storage, tmp_path, number) for number in range(4)]
    for number in (0, 1, 2, 0, 3):
        cache.get(segments[number])
        assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) == cache.used_bytes <= 300
    cache.get(segments[0])
    assert storage.pulls == 4
    cache.get(segments[1])
    assert storage.pulls == 5


def test_pinned_files_stay_and_a_full_cache_says_so(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 250)
    first, second, third = (stored(storage, tmp_path, number) for number in range(3))
    with cache.pinned([first, second]) as paths:
        with pytest.raises(CacheFull, match="running queries"):
            cache.get(third)
        assert all(path.exists() for path in paths.values())
    assert cache.get(third).exists()
    assert not paths[first.id].exists() and paths[second.id].exists()


def test_a_failed_group_lets_go_of_its_pins(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 250)
    first, second, third = (stored(storage, tmp_path, number) for number in range(3))
    with pytest.raises(CacheFull), cache.pinned([first, second, third]):
        raise AssertionError("never entered")
    assert cache.get(third).exists()


def test_a_segment_beyond_the_limit_is_a_clear_error(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 99)
    with pytest.raises(SegmentTooLarge, match="limit is 99"):
        cache.get(stored(storage, tmp_path, 1))
    assert storage.pulls == 0


def test_wrong_bytes_are_never_served(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 1000)
    segment = stored(storage, tmp_path, 1)
    for wrong in (b"\x02" * 100, b"\x01" * 99):
        storage.corrupt(segment.load_spec, wrong)
        with pytest.raises(SegmentCorrupt, match="t_1970"):
            cache.get(segment)
        assert list((tmp_path / "cache").iterdir()) == [] and cache.used_bytes == 0
    storage.corrupt(segment.load_spec, b"\x01" * 100)
    assert cache.get(segment).exists()


def test_a_failed_pull_frees_its_room_and_can_be_repeated(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 100)
    segment = stored(storage, tmp_path, 1)
    storage.fail_next("pull", StorageUnavailable("down"))
    with pytest.raises(StorageUnavailable):
        cache.get(segment)
    assert cache.used_bytes == 0
    assert cache.get(segment).exists()
    gone = replace(segment, load_spec=storage.load_spec("t/none"), checksum="00")
    with pytest.raises(SegmentNotFound):
        cache.get(gone)


def test_files_survive_a_restart_in_the_order_of_their_use(storage: CountingStorage, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    cache = SegmentCache(root, storage, 1000)
    segments = [stored(storage, tmp_path, number) for number in range(3)]
    for number in (0, 1, 2, 0):
        cache.get(segments[number])
    (root / ".tmp-left").write_bytes(b"x")
    (root / "left.arriving").write_bytes(b"x")
    again = SegmentCache(root, storage, 250)
    assert again.used_bytes == 200
    again.get(segments[0])
    again.get(segments[2])
    assert storage.pulls == 3
    assert sorted(path.suffix for path in root.iterdir()) == [".parquet", ".parquet"]


def test_a_file_damaged_while_the_service_was_down_is_pulled_again(storage: CountingStorage, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    segments = [stored(storage, tmp_path, number) for number in range(2)]
    for segment in segments:
        path = SegmentCache(root, storage, 1000).get(segment)
    path.write_bytes(b"\xff" * 100)
    SegmentCache(root, storage, 1000).get(segments[0]).write_bytes(b"cut")
    again = SegmentCache(root, storage, 1000)
    assert again.get(segments[1]).read_bytes() == b"\x01" * 100
    assert again.get(segments[0]).read_bytes() == b"\x00" * 100
    assert again.used_bytes == 200


def test_a_name_on_the_disk_that_cannot_be_looked_at_is_told_and_pulled_again(
    storage: CountingStorage, tmp_path: Path
) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 1_000)
    segment = stored(storage, tmp_path, 1)
    path = tmp_path / "cache" / f"{segment.checksum}.parquet"
    path.symlink_to(path)
    with pytest.raises(StorageMisconfigured, match="caching"):
        cache.pin(segment)
    assert cache.used_bytes == 0
    assert cache.get(segment).read_bytes() == bytes([1]) * 100


def test_a_dropped_segment_frees_its_room_unless_pinned(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 1000)
    segment = stored(storage, tmp_path, 1)
    with cache.pinned([segment]) as paths:
        cache.drop(segment)
        assert paths[segment.id].exists()
    cache.drop(segment)
    assert cache.used_bytes == 0 and not paths[segment.id].exists()


def test_bytes_are_told_by_table_also_of_files_found_at_start_up(storage: CountingStorage, tmp_path: Path) -> None:
    cache = SegmentCache(tmp_path / "cache", storage, 1000)
    segments = [stored(storage, tmp_path, number) for number in (1, 2, 3)]
    other = replace(segments[2], id=SegmentId(DataSource("u"), Interval(0, 1), "v", 3))
    for segment in (*segments[:2], other):
        cache.get(segment)
    assert cache.table_bytes(9) == {"t": 200, "u": 100} and cache.table_bytes(1) == {"t": 200}
    cache.drop(other)
    assert cache.table_bytes(9) == {"t": 200}
    again = SegmentCache(tmp_path / "cache", storage, 1000)
    assert again.table_bytes(9) == {}
    again.recognise([segments[0], other])
    again.get(segments[1])
    assert again.table_bytes(9) == {"t": 200} and again.used_bytes == 200
