"""The brokers under the supplier's contract, each with the same few operations for a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from ingest.errors import StreamError
from ingest.protocol import Place
from ingest.stream.memory import MemoryStream, MemorySupplier
from ingest.stream.supplier import Poll, RecordSupplier
from ingest.stream.topics import Naming, TopicsObserver, TopicsSupplier

DEADLINE_S = 60.0
Records = list[bytes | None]


def values(prefix: str, count: int) -> Records:
    """Records that name their order."""
    return [f"{prefix}{i}".encode() for i in range(count)]


class Stream(Protocol):
    """A broker as a contract test needs it."""

    def topic(self, partitions: int) -> str: ...
    def supplier(
        self, topic: str, *, isolation: str = "read_committed", keys: bool = False, topic_id: str | None = None
    ) -> RecordSupplier: ...
    def topics_supplier(self, places: Sequence[Place], topic_id: str | None) -> RecordSupplier: ...
    def topics_observer(
        self, pattern: str, topics: Callable[[], Collection[str]], naming: Naming
    ) -> RecordSupplier: ...
    def append(
        self,
        topic: str,
        partition: int,
        records: Records,
        *,
        timestamp_ms: int = 1,
        key: bytes | None = None,
    ) -> None: ...
    def open_transaction(self, topic: str, partition: int, records: Records) -> Callable[[bool], None]: ...
    def transaction(self, topic: str, partition: int, records: Records, *, commit: bool) -> None: ...
    def holes(self) -> str: ...
    def add_partitions(self, topic: str, total: int) -> None: ...
    def truncate(self, topic: str, partition: int, before: int) -> None: ...
    def recreate(self, topic: str) -> None: ...


class MemoryBroker:
    """`Stream` in memory."""

    def __init__(self) -> None:
        self._stream = MemoryStream()
        self._count = 0

    def topic(self, partitions: int) -> str:
        self._count += 1
        self._stream.create_topic(f"t{self._count}", partitions)
        return f"t{self._count}"

    def supplier(
        self, topic: str, *, isolation: str = "read_committed", keys: bool = False, topic_id: str | None = None
    ) -> RecordSupplier:
        columns = ("timestamps", "keys") if keys else ("timestamps",)
        return MemorySupplier(self._stream, topic, topic_id=topic_id, isolation=isolation, columns=columns)

    def topics_supplier(self, places: Sequence[Place], topic_id: str | None) -> RecordSupplier:
        return TopicsSupplier(places, topic_id, lambda topic, _: self.supplier(topic))

    def topics_observer(self, pattern: str, topics: Callable[[], Collection[str]], naming: Naming) -> RecordSupplier:
        return TopicsObserver(pattern, topics, naming, lambda topic, _: self.supplier(topic))

    def append(
        self,
        topic: str,
        partition: int,
        records: Records,
        *,
        timestamp_ms: int = 1,
        key: bytes | None = None,
    ) -> None:
        self._stream.append(topic, partition, records, timestamp_ms=timestamp_ms, key=key)

    def open_transaction(self, topic: str, partition: int, records: Records) -> Callable[[bool], None]:
        opened = self._stream.begin()
        opened.append(topic, partition, records)
        return lambda commit: opened.commit() if commit else opened.abort()

    def transaction(self, topic: str, partition: int, records: Records, *, commit: bool) -> None:
        self.open_transaction(topic, partition, records)(commit)

    def holes(self) -> str:
        topic = self.topic(1)
        self._stream.append(topic, 0, values("a", 20))
        self._stream.remove(topic, 0, [0, 1, 5, 6, 7, 18])
        return topic

    def add_partitions(self, topic: str, total: int) -> None:
        self._stream.add_partitions(topic, total)

    def truncate(self, topic: str, partition: int, before: int) -> None:
        self._stream.truncate(topic, partition, before)

    def recreate(self, topic: str) -> None:
        self._stream.delete_topic(topic)
        self._stream.create_topic(topic)


class Gatherer:
    """Reads a supplier and keeps what came; checks that polls join without gap or overlap."""

    def __init__(self, supplier: RecordSupplier) -> None:
        self.supplier = supplier
        self.polls: list[Poll] = []
        self.records: dict[int, list[tuple[int, bytes | None]]] = {}
        self.timestamps: dict[int, list[int]] = {}
        self._expected: dict[int, int] = {}

    def assign(self, positions: Mapping[int, int]) -> None:
        """Assigns, and forgets what was read."""
        self.supplier.assign(positions)
        self.polls, self.records, self.timestamps = [], {}, {}
        self._expected = dict(positions)

    def positions(self) -> dict[int, int]:
        """Where the supplier stands."""
        return self.supplier.positions()

    def poll(self, max_records: int) -> list[Poll]:
        """One poll, checked."""
        got = self.supplier.poll(max_records, 300)
        for poll in got:
            assert poll.first_offset == self._expected[poll.partition]
            assert len(poll.offsets) == len(poll.values) == len(poll.timestamps_ms)
            assert all(poll.first_offset <= offset < poll.end_offset for offset in poll.offsets)
            self._expected[poll.partition] = poll.end_offset
            self.records.setdefault(poll.partition, []).extend(zip(poll.offsets, poll.values, strict=True))
            self.timestamps.setdefault(poll.partition, []).extend(poll.timestamps_ms)
        self.polls += got
        assert self.supplier.positions() == self._expected
        return got

    def read_to(self, target: Mapping[int, int]) -> None:
        """Polls until the partitions stand exactly there."""
        end = time.monotonic() + DEADLINE_S
        while any(self._expected[p] < offset for p, offset in target.items()):
            assert time.monotonic() < end, f"stands at {self._expected}, wanted {target}"
            self.poll(1000)
        assert {p: self._expected[p] for p in target} == dict(target), (self._expected, self.records.keys())

    def settle(self, seconds: float = 1.5) -> None:
        """Polls on an idle stream for as long as the topic's id may take to be learnt."""
        end = time.monotonic() + seconds
        while not isinstance(self.supplier, MemorySupplier) and time.monotonic() < end:
            self.poll(10)

    def read_to_error(self) -> StreamError:
        """Polls until the supplier raises one of its errors."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            try:
                self.poll(1000)
            except StreamError as e:
                return e
        raise AssertionError(f"no error, stands at {self._expected}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.supplier.close()
