"""Decides which segments of a table are visible at a metadata version, and which a newer version overshadows.

Two different questions (pure, no I/O):

- *Visibility* is explicit: a segment is visible at version V if and only if one of its (added, removed) pairs
  has ``added <= V < removed``. Queries use only this.
- *Overshadowing* is Druid's notion of version strings, for display: a segment is overshadowed when segments of
  higher versions cover all of its interval.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from segments.data_segment import DataSegment
from segments.identity import SegmentId
from segments.interval import Interval


@dataclass(frozen=True, slots=True, order=True)
class Visibility:
    """One stretch of versions at which a segment is visible: ``added <= V``, and ``V < removed`` if removed."""

    added: int
    removed: int | None = None

    def __post_init__(self) -> None:
        assert self.removed is None or self.added <= self.removed, "removed before it was added"

    def covers(self, version: int) -> bool:
        return self.added <= version and (self.removed is None or version < self.removed)

    def ended_by(self, version: int) -> bool:
        """True if no version from this one on is covered."""
        return self.removed is not None and self.removed <= version


@dataclass(slots=True)
class _Entry:
    segment: DataSegment
    stretches: list[Visibility] = field(default_factory=list)


class Timeline:
    """The segments of one table with their visibility over versions; for one thread.

    Lookups cost what they find plus a few bisections, whatever the number of segments: time chunks are kept
    sorted by start, in one list per order of magnitude of their width.
    """

    def __init__(self) -> None:
        self._entries: dict[SegmentId, _Entry] = {}
        self._chunks: dict[Interval, set[SegmentId]] = defaultdict(set)
        self._by_width: dict[int, list[Interval]] = defaultdict(list)
        # The only candidates for forgetting; few beside all segments of a large table.
        self._ended: set[SegmentId] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, segment: DataSegment, added: int, removed: int | None = None) -> None:
        """Records that the segment is visible from version ``added`` on. Repeating a stretch changes nothing."""
        entry = self._entries.get(segment.id)
        if entry is None:
            entry = self._entries[segment.id] = _Entry(segment)
            if segment.interval not in self._chunks:
                insort(self._by_width[segment.interval.width_ms.bit_length()], segment.interval)
            self._chunks[segment.interval].add(segment.id)
        same = next((stretch for stretch in entry.stretches if stretch.added == added), None)
        if same is not None:
            entry.stretches.remove(same)
            removed = same.removed if removed is None else removed
        insort(entry.stretches, Visibility(added, removed), key=lambda stretch: stretch.added)
        self._note_end(segment.id, entry)

    def remove(self, segment_id: SegmentId, removed: int) -> None:
        """Records that the segment, visible so far, is not visible from version ``removed`` on."""
        entry = self._entries[segment_id]
        last = entry.stretches[-1]
        assert last.removed in (None, removed), f"{segment_id} was removed at {last.removed} already"
        entry.stretches[-1] = Visibility(last.added, removed)
        self._note_end(segment_id, entry)

    def forget_before(self, version: int) -> list[SegmentId]:
        """Drops segments that no version from this one on can see; returns their ids in order."""
        gone = sorted(
            segment_id
            for segment_id in self._ended
            if all(stretch.ended_by(version) for stretch in self._entries[segment_id].stretches)
        )
        self._ended.difference_update(gone)
        for segment_id in gone:
            interval = self._entries.pop(segment_id).segment.interval
            self._chunks[interval].discard(segment_id)
            if not self._chunks[interval]:
                del self._chunks[interval]
                chunks = self._by_width[interval.width_ms.bit_length()]
                del chunks[bisect_left(chunks, interval)]
        return gone

    def _note_end(self, segment_id: SegmentId, entry: _Entry) -> None:
        if all(stretch.removed is not None for stretch in entry.stretches):
            self._ended.add(segment_id)
        else:
            self._ended.discard(segment_id)

    def segment(self, segment_id: SegmentId) -> DataSegment | None:
        """The segment of this id if the timeline knows it, visible or not."""
        entry = self._entries.get(segment_id)
        return entry.segment if entry else None

    def is_visible(self, segment_id: SegmentId, version: int) -> bool:
        entry = self._entries.get(segment_id)
        return entry is not None and any(stretch.covers(version) for stretch in entry.stretches)

    def visible(self, version: int) -> list[DataSegment]:
        """All segments visible at a version, in the order of their ids."""
        return self.lookup(Interval.ETERNITY, version)

    def lookup(self, interval: Interval, version: int) -> list[DataSegment]:
        """The segments visible at a version whose time chunk overlaps the interval, in the order of their ids."""
        found = [
            self._entries[segment_id].segment
            for chunk in self._overlapping(interval)
            for segment_id in self._chunks[chunk]
            if self.is_visible(segment_id, version)
        ]
        return sorted(found, key=lambda segment: segment.id)

    def _overlapping(self, interval: Interval) -> Iterator[Interval]:
        for bits, chunks in self._by_width.items():
            # A chunk in this list is narrower than 2 ** bits, so none that starts earlier can reach the interval.
            first = bisect_right(chunks, interval.start_ms - (1 << bits), key=lambda chunk: chunk.start_ms)
            last = bisect_left(chunks, interval.end_ms, key=lambda chunk: chunk.start_ms)
            yield from (chunk for chunk in chunks[first:last] if chunk.overlaps(interval))


def overshadowed(segment_ids: Iterable[SegmentId]) -> set[SegmentId]:
    """The ids whose whole interval is covered by ids of the same table with higher versions.

    Sweeps time from left to right: between two neighbouring interval ends the highest version wins, and
    whoever wins nowhere is overshadowed. Appended partitions of one version share the win.
    """
    by_table: dict[str, list[SegmentId]] = defaultdict(list)
    for segment_id in segment_ids:
        by_table[segment_id.datasource].append(segment_id)
    losers: set[SegmentId] = set()
    for ids in by_table.values():
        losers |= _overshadowed_in_table(ids)
    return losers


def _overshadowed_in_table(ids: list[SegmentId]) -> set[SegmentId]:
    winners: set[tuple[Interval, str]] = set()
    generations = {(segment_id.interval, segment_id.version) for segment_id in ids}
    starts, ends = defaultdict(list), defaultdict(list)
    for generation in generations:
        starts[generation[0].start_ms].append(generation)
        ends[generation[0].end_ms].append(generation)
    # Versions of what covers the current stretch, ascending; equal versions may come from different intervals.
    active: list[tuple[str, Interval]] = []
    for edge_ms in sorted({*starts, *ends}):
        for interval, version in ends[edge_ms]:
            del active[bisect_left(active, (version, interval))]
        for interval, version in starts[edge_ms]:
            insort(active, (version, interval))
        index = len(active)
        while index and active[index - 1][0] == active[-1][0]:
            index -= 1
            winners.add((active[index][1], active[index][0]))
    return {segment_id for segment_id in ids if (segment_id.interval, segment_id.version) not in winners}
