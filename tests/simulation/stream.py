"""The modelled topic: partitions of numbered records with holes, which come in bursts."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Topic:
    """``bad`` are records that cannot be read whole.

    ``records[p]`` holds the visible offsets below ``ends[p]``; the others are holes for ever. Below
    ``log_starts[p]`` nothing can be read any more; what was there is remembered to judge by."""

    records: dict[int, set[int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    log_starts: dict[int, int] = field(default_factory=dict)
    bad: set[tuple[int, int]] = field(default_factory=set)

    def add_partition(self, partition: int, first: int) -> None:
        """``first`` is its log start."""
        self.records[partition] = set()
        self.ends[partition] = first
        self.log_starts[partition] = first

    def expire(self, partition: int, log_start: int) -> None:
        """Deletes the records below ``log_start``, read or not."""
        self.log_starts[partition] = max(self.log_starts[partition], log_start)

    def append(self, partition: int, visible: bool) -> None:
        """One more offset: a record, or a hole (an aborted or control record)."""
        if visible:
            self.records[partition].add(self.ends[partition])
        self.ends[partition] += 1

    def between(self, partition: int, start: int, end: int) -> list[tuple[int, int]]:
        """Visible records of a half-open range, as (partition, offset)."""
        visible = self.records[partition]
        return [(partition, offset) for offset in range(start, end) if offset in visible]
