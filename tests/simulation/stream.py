"""The modelled topic: partitions of numbered records with holes, which come in bursts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ingest.offsets import OffsetMap
from ingest.supervisor.messages import StreamSeen

if TYPE_CHECKING:
    from tests.simulation.world import World


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


def look_at(world: World, now_ms: int) -> StreamSeen:
    """What an overlord finds when it lists the topic, and what was committed before that."""
    starts = OffsetMap(world.topic.log_starts)
    ends = OffsetMap((p, world.end_of(p)) for p in world.topic.ends)
    stored = world.store.offsets(world.supervisor, world.topic_name)
    committed = OffsetMap() if stored is None else stored.committed
    return StreamSeen(now_ms, "topic-1", starts, starts, ends, committed=committed)
