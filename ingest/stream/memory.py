"""A partitioned stream in memory with Kafka's awkward parts: markers, aborts, holes, truncation.

`MemoryStream` is the broker and may be used by several threads; `MemorySupplier` is one reader of
one topic of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from ingest.errors import StreamError
from ingest.stream.supplier import BrokerUnreachable, Headers, OffsetOutOfRange, Poll, TopicMissing, TopicRecreated

# What a poll may look at beyond the records it returns, so that a log of markers ends a poll too.
_SCAN_MAX = 100_000


@dataclass(frozen=True, slots=True)
class _Record:
    value: bytes | None
    timestamp_ms: int
    key: bytes | None
    headers: Headers
    transaction: Transaction | None

    @property
    def aborted(self) -> bool:
        return self.transaction is not None and self.transaction.aborted


@dataclass(slots=True)
class _Partition:
    start: int = 0
    end: int = 0
    records: dict[int, _Record] = field(default_factory=dict)  # by offset; markers and holes are absent
    open_from: dict[Transaction, int] = field(default_factory=dict)

    def stable(self) -> int:
        return min(self.open_from.values(), default=self.end)

    def trim(self, before: int) -> None:
        for offset in range(self.start, before):
            self.records.pop(offset, None)
        self.start = before


@dataclass(slots=True)
class _Topic:
    topic_id: str
    partitions: list[_Partition]


class MemoryStream:
    """Topics, partitions and transactions. Every method is safe from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._topics: dict[str, _Topic] = {}
        self._made = 0
        self.trouble: StreamError | None = None
        """While set, every call of every supplier raises it (a broker that is away)."""

    def create_topic(self, topic: str, partitions: int = 1) -> str:
        """Creates a topic and returns its id; a topic re-created after `delete_topic` gets a new one."""
        with self._changed:
            assert topic not in self._topics, f"topic {topic} exists"
            self._made += 1
            topic_id = f"topic-{self._made}"
            self._topics[topic] = _Topic(topic_id, [_Partition() for _ in range(partitions)])
            self._changed.notify_all()
            return topic_id

    def topics(self) -> list[str]:
        """The names of all topics."""
        with self._changed:
            if self.trouble is not None:
                raise self.trouble
            return list(self._topics)

    def delete_topic(self, topic: str) -> None:
        """Forgets the topic and its records."""
        with self._changed:
            del self._topics[topic]
            self._changed.notify_all()

    def add_partitions(self, topic: str, total: int) -> None:
        """Grows the topic to ``total`` partitions."""
        with self._changed:
            parts = self._topics[topic].partitions
            assert total >= len(parts)
            parts.extend(_Partition() for _ in range(total - len(parts)))
            self._changed.notify_all()

    def append(
        self,
        topic: str,
        partition: int,
        values: Iterable[bytes | None],
        *,
        timestamp_ms: int = 0,
        key: bytes | None = None,
        headers: Headers = (),
    ) -> int:
        """Appends records outside any transaction and returns the offset of the first."""
        records = (_Record(value, timestamp_ms, key, headers, None) for value in values)
        return self._append(topic, partition, records)

    def _append(self, topic: str, partition: int, records: Iterable[_Record]) -> int:
        with self._changed:
            part = self._partition(topic, partition)
            first = part.end
            for record in records:
                if record.transaction is not None:
                    part.open_from.setdefault(record.transaction, first)
                part.records[part.end] = record
                part.end += 1
            self._changed.notify_all()
            return first

    def begin(self) -> Transaction:
        """Starts a transaction: its records are invisible to read_committed until it commits."""
        return Transaction(self)

    def remove(self, topic: str, partition: int, offsets: Iterable[int]) -> None:
        """Compaction: the records vanish, every other offset stays."""
        with self._changed:
            part = self._partition(topic, partition)
            for offset in offsets:
                part.records.pop(offset, None)

    def skip(self, topic: str, partition: int, count: int) -> None:
        """Leaves ``count`` offsets at the end that will never hold a record."""
        with self._changed:
            self._partition(topic, partition).end += count
            self._changed.notify_all()

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Retention: the log starts at ``before``."""
        with self._changed:
            part = self._partition(topic, partition)
            assert part.start <= before <= part.end
            part.trim(before)

    def truncate_tail(self, topic: str, partition: int, end: int) -> None:
        """An unclean leader election: records at ``end`` and after are lost."""
        with self._changed:
            part = self._partition(topic, partition)
            for offset in range(end, part.end):
                part.records.pop(offset, None)
            part.end = end

    def _partition(self, topic: str, partition: int) -> _Partition:
        parts = self._topic(topic).partitions
        if not 0 <= partition < len(parts):
            raise TopicMissing(topic, f"it has no partition {partition}")
        return parts[partition]

    def _topic(self, topic: str) -> _Topic:
        if self.trouble is not None:
            raise self.trouble
        found = self._topics.get(topic)
        if found is None:
            raise TopicMissing(topic)
        return found

    def unreachable(self, away: bool = True) -> None:
        """Takes the broker away, or brings it back."""
        with self._changed:
            self.trouble = BrokerUnreachable("memory", "taken away") if away else None
            self._changed.notify_all()


class Transaction:
    """A producer's transaction; each end takes one offset of every partition it wrote to."""

    def __init__(self, stream: MemoryStream) -> None:
        self._stream = stream
        self._touched: dict[tuple[str, int], None] = {}
        self.aborted = False

    def append(self, topic: str, partition: int, values: Iterable[bytes | None], *, timestamp_ms: int = 0) -> int:
        """Appends records inside the transaction and returns the offset of the first."""
        self._touched[topic, partition] = None
        records = (_Record(value, timestamp_ms, None, (), self) for value in values)
        return self._stream._append(topic, partition, records)

    def commit(self) -> None:
        """Makes the records visible."""
        self._end()

    def abort(self) -> None:
        """Makes the records invisible for ever to read_committed."""
        self.aborted = True
        self._end()

    def _end(self) -> None:
        with self._stream._changed:
            for topic, partition in self._touched:
                part = self._stream._partition(topic, partition)
                part.open_from.pop(self, None)
                part.end += 1  # the control marker
            self._stream._changed.notify_all()


class MemorySupplier:
    """`RecordSupplier` over a `MemoryStream`."""

    def __init__(
        self,
        stream: MemoryStream,
        topic: str,
        *,
        topic_id: str | None = None,
        isolation: str = "read_committed",
        columns: Collection[str] = ("timestamps",),
    ) -> None:
        assert isolation in ("read_committed", "read_uncommitted")
        self._stream = stream
        self._topic = topic
        self._committed_only = isolation == "read_committed"
        self._topic_id = topic_id
        self._keys = "keys" in columns
        self._headers = "headers" in columns
        self._positions: dict[int, int] = {}
        self._paused: set[int] = set()
        self._stuck: set[int] = set()

    def assign(self, positions: Mapping[int, int]) -> None:
        self._positions = dict(positions)
        self._paused = set()
        self._stuck = set()

    def pause(self, partitions: Collection[int]) -> None:
        assert set(partitions) <= self._positions.keys(), "only assigned partitions can be paused"
        self._paused |= set(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        assert set(partitions) <= self._positions.keys(), "only assigned partitions can be resumed"
        self._paused -= set(partitions)

    def poll(self, max_records: int, timeout_ms: int) -> list[Poll]:
        assert max_records > 0
        changed = self._stream._changed
        with changed:
            self._check_id()
            out = self._read(max_records)
            if not out and timeout_ms > 0:
                changed.wait(timeout_ms / 1000)
                self._check_id()
                out = self._read(max_records)
            return out

    def _check_id(self) -> None:
        found = self._stream._topic(self._topic).topic_id
        if self._topic_id is None:
            self._topic_id = found
        elif found != self._topic_id:
            raise TopicRecreated(self._topic, self._topic_id, found)

    def _read(self, room: int) -> list[Poll]:
        out: list[Poll] = []
        failed: StreamError | None = None
        for partition, position in self._positions.items():
            if partition in self._paused or partition in self._stuck or room <= 0:
                continue
            part = self._stream._partition(self._topic, partition)
            if not part.start <= position <= part.end:
                if failed is None:
                    failed = OffsetOutOfRange(self._topic, partition, position, part.start, part.end)
                    failed_partition = partition
                continue
            poll = self._read_one(partition, part, position, room)
            if poll is not None:
                out.append(poll)
                room -= len(poll)
        if out or failed is None:
            for poll in out:
                self._positions[poll.partition] = poll.end_offset
            return out
        self._stuck.add(failed_partition)
        raise failed

    def _read_one(self, partition: int, part: _Partition, position: int, room: int) -> Poll | None:
        limit = part.stable() if self._committed_only else part.end
        offsets: list[int] = []
        found: list[_Record] = []
        at = position
        for at in islice(range(position, limit), _SCAN_MAX):
            record = part.records.get(at)
            if record is not None and not (
                self._committed_only and record.transaction is not None and record.transaction.aborted
            ):
                offsets.append(at)
                found.append(record)
                if len(offsets) >= room:
                    break
        end = at + 1 if limit > position else position
        if end == position:
            return None
        return Poll(
            partition=partition,
            first_offset=position,
            end_offset=end,
            offsets=offsets,
            values=[r.value for r in found],
            timestamps_ms=[r.timestamp_ms for r in found],
            keys=[r.key for r in found] if self._keys else None,
            headers=[r.headers for r in found] if self._headers else None,
        )

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def earliest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._marks(partitions, lambda part: part.start)

    def latest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._marks(partitions, lambda part: part.end)

    def last_stable(self, partitions: Collection[int]) -> dict[int, int]:
        return self._marks(partitions, _Partition.stable)

    def _marks(self, partitions: Collection[int], mark: Callable[[_Partition], int]) -> dict[int, int]:
        with self._stream._changed:
            return {p: mark(self._stream._partition(self._topic, p)) for p in partitions}

    def partitions(self) -> list[int]:
        with self._stream._changed:
            return list(range(len(self._stream._topic(self._topic).partitions)))

    def topic_id(self) -> str | None:
        with self._stream._changed:
            return self._stream._topic(self._topic).topic_id

    def close(self) -> None:
        self._positions = {}
