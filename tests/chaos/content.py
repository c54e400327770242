"""What a stream was given, and which answers are right: dense numbers per partition, less what was destroyed."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

Range = tuple[int, int]
"""Numbers of rows, half-open."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows that were in the stream and may or may not be in the table: their records were destroyed.

    One immutable picture: a question is judged by the picture it was asked under.
    """

    ranges: tuple[tuple[Range, ...], ...] = ()

    def of(self, partition: int) -> tuple[Range, ...]:
        return self.ranges[partition] if partition < len(self.ranges) else ()

    def rows(self, partition: int, end: int) -> int:
        """How many of the numbers below ``end`` are lost."""
        return sum(max(0, min(stop, end) - start) for start, stop in self.of(partition))

    def total(self, partition: int, end: int) -> int:
        """The sum of the lost numbers below ``end``."""
        spans = [(start, min(stop, end)) for start, stop in self.of(partition)]
        return sum((stop * (stop - 1) - start * (start - 1)) // 2 for start, stop in spans if stop > start)

    def reach(self, partition: int, end: int) -> int:
        """Where the rows below ``end`` that are not lost come to an end: their largest number plus one."""
        for start, stop in reversed(self.of(partition)):
            if start < end <= stop:
                end = start
        return end

    def with_range(self, partition: int, lost: Range) -> Loss:
        """Also these; ranges of a partition are given in ascending order, overlapping ones are joined."""
        ranges = [list(each) for each in self.ranges]
        while len(ranges) <= partition:
            ranges.append([])
        start, stop = lost
        kept = []
        for old_start, old_stop in ranges[partition]:
            if old_stop < start or old_start > stop:
                kept.append((old_start, old_stop))
            else:
                start, stop = min(start, old_start), max(stop, old_stop)
        ranges[partition] = sorted([*kept, (start, stop)])
        return Loss(tuple(tuple(each) for each in ranges))

    def condition(self) -> str:
        """SQL that is true for rows that are not lost."""
        lost = [
            f"(p = {partition} AND seq >= {start} AND seq < {stop})"
            for partition, spans in enumerate(self.ranges)
            for start, stop in spans
        ]
        return f"NOT ({' OR '.join(lost)})" if lost else "TRUE"


class Content:
    """Rows sent so far per partition, the offsets they got, and what was lost. Any thread."""

    def __init__(self, partitions: int) -> None:
        self.sent = [0] * partitions
        self.loss = Loss()
        self._offsets: list[dict[int, int]] = [{} for _ in range(partitions)]
        self._lock = threading.Lock()

    def delivered(self, partition: int, row: int, offset: int) -> None:
        """The broker has acknowledged this row at this offset; a later incarnation of the row replaces an earlier."""
        with self._lock:
            self._offsets[partition][row] = offset

    def grow(self, partitions: int) -> None:
        with self._lock:
            while len(self._offsets) < partitions:
                self._offsets.append({})
                self.sent.append(0)

    def lose(self, partition: int, first_offset: int, end_offset: int) -> None:
        """Records at these offsets are about to be destroyed. Nothing of the partition may be on its way."""
        with self._lock:
            rows = sorted(self._offsets[partition])
            offsets = [self._offsets[partition][row] for row in rows]
            first, stop = bisect_left(offsets, first_offset), bisect_left(offsets, end_offset)
            if first < stop:
                self.loss = self.loss.with_range(partition, (rows[first], rows[stop - 1] + 1))

    def forget_offsets(self) -> None:
        """The topic is a new one: what was sent so far has no offset any more."""
        with self._lock:
            for offsets in self._offsets:
                offsets.clear()

    @property
    def sound(self) -> int:
        """Rows that must be in the table in the end."""
        loss = self.loss
        return sum(count - loss.rows(partition, count) for partition, count in enumerate(self.sent))

    def reaches(self) -> list[int]:
        """Per partition where an answer that holds everything ends."""
        loss = self.loss
        return [loss.reach(partition, count) for partition, count in enumerate(self.sent)]


def judged(loss: Loss, sent: Sequence[int], answer: Sequence[tuple[int, int, int, int]]) -> tuple[list[int], list[str]]:
    """Where each partition's rows end in an answer of (partition, rows, largest, sum), and what is wrong with it.

    ``answer`` is about the rows outside of ``loss``: they must be every one below the largest.
    """
    reached = [0] * len(sent)
    faults = []
    for partition, count, top, total in answer:
        if partition >= len(sent) or top >= sent[partition]:
            faults.append(f"partition {partition}: row {top} of {sent[partition : partition + 1]} that were sent")
            continue
        reached[partition] = top + 1
        rows = top + 1 - loss.rows(partition, top + 1)
        if count != rows or total != (top + 1) * top // 2 - loss.total(partition, top + 1):
            faults.append(f"partition {partition}: {count} rows up to {top} with sum {total} are not all of {rows}")
    return reached, faults
