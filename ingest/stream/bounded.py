"""The stream port up to given offsets: what lies at or past them is not there."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ingest.stream.supplier import Poll, RecordSupplier


def within(supplier: RecordSupplier, ends: Mapping[int, int] | None) -> RecordSupplier:
    """The supplier as it is, or where ``ends`` are given, these partitions up to there."""
    return supplier if ends is None else BoundedSupplier(supplier, ends)


class BoundedSupplier:
    """`RecordSupplier` of the partitions of ``ends``; a partition that reached its end stands still."""

    def __init__(self, supplier: RecordSupplier, ends: Mapping[int, int]) -> None:
        self._supplier = supplier
        self._ends = dict(ends)
        self._positions: dict[int, int] = {}
        self._reading: set[int] = set()  # assigned below: not at their end yet

    def assign(self, positions: Mapping[int, int]) -> None:
        self._positions = dict(positions)
        below = {p: offset for p, offset in positions.items() if offset < self._ends[p]}
        self._reading = set(below)
        self._supplier.assign(below)

    def pause(self, partitions: Collection[int]) -> None:
        self._supplier.pause(self._reading & set(partitions))

    def resume(self, partitions: Collection[int]) -> None:
        self._supplier.resume(self._reading & set(partitions))

    def poll(self, max_records: int, timeout_ms: int) -> list[Poll]:
        polls = [cut(poll, self._ends[poll.partition]) for poll in self._supplier.poll(max_records, timeout_ms)]
        ended = {poll.partition for poll in polls if poll.end_offset >= self._ends[poll.partition]}
        self._positions |= {poll.partition: poll.end_offset for poll in polls}
        if ended:
            self._supplier.pause(ended & self._reading)
            self._reading -= ended
        return [poll for poll in polls if poll.end_offset > poll.first_offset]

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def earliest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._supplier.earliest(partitions)

    def latest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._capped(self._supplier.latest(partitions))

    def last_stable(self, partitions: Collection[int]) -> dict[int, int]:
        return self._capped(self._supplier.last_stable(partitions))

    def partitions(self) -> list[int]:
        """Those that are bounded, whatever else the topic has."""
        return sorted(self._ends)

    def topic_id(self) -> str | None:
        return self._supplier.topic_id()

    def close(self) -> None:
        self._supplier.close()

    def _capped(self, offsets: dict[int, int]) -> dict[int, int]:
        return {p: min(offset, self._ends[p]) for p, offset in offsets.items()}


def cut(poll: Poll, end: int) -> Poll:
    """The part of the poll below ``end``; empty where it begins at or past it."""
    if poll.end_offset <= end:
        return poll
    count = sum(offset < end for offset in poll.offsets)
    return Poll(
        poll.partition,
        poll.first_offset,
        max(end, poll.first_offset),
        poll.offsets[:count],
        poll.values[:count],
        poll.timestamps_ms[:count],
        None if poll.keys is None else poll.keys[:count],
        None if poll.headers is None else poll.headers[:count],
        poll.source,
    )
