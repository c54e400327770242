"""The stream port over Kafka: batches from librdkafka, grouped by partition without a loop per record.

A poll costs one `consume(500)` for each 500 messages and `map` over the C getters; measured at
0.4 to 0.6 microseconds a message. This is the only importer of the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from ingest.clock import SystemClock
from ingest.errors import StreamError
from ingest.stream.columns import Columns
from ingest.stream.properties import asking
from ingest.stream.refusals import AWAY, LEADERLESS, OUT_OF_RANGE, REFUSED, meaning
from ingest.stream.supplier import (
    AuthenticationRefused,
    BrokerUnreachable,
    Headers,
    OffsetOutOfRange,
    Poll,
    TopicMissing,
)
from ingest.stream.topic_watch import TopicWatch

COLUMNS = ("timestamps", "keys", "headers")
# Beyond 500 messages a call the objects fall out of the CPU's cache and the collector sees them.
_CONSUME = 500
# A poll gathers no more than this and one call's messages, however large they are.
_BYTES_MAX = 32 << 20
# What a poll that is behind waits for the fetcher, each time it has emptied the queue.
_GATHER_S = 0.005
_GATHER_ROUNDS = 4

_LEADER_ROUNDS = 40
_LEADER_WAIT_S = 0.1

T = TypeVar("T")

_client_log = logging.getLogger(__name__)  # what librdkafka itself has to say

# The client leaves these without types.
_SPECS: Any = kafka_admin
_EARLIEST: Any = _SPECS.OffsetSpec.earliest()
_LATEST: Any = _SPECS.OffsetSpec.latest()

# A consumed message always has these; the client's own types say that it may not.
_partition_of = cast("Callable[[Message], int]", Message.partition)
_offset_of = cast("Callable[[Message], int]", Message.offset)
_headers_of = cast("Callable[[Message], Headers | None]", Message.headers)
_second = itemgetter(1)


class KafkaSupplier:
    """`RecordSupplier` over a Kafka topic. One thread; connects on first use.

    A supplier reads one incarnation of its topic: the one of ``topic_id``, else the one it finds first.
    ``columns`` names what a poll carries beside offsets and values: `COLUMNS`.
    ``config`` is librdkafka's, complete, as `ingest.stream.properties.translate` returns it. A
    consumer exists only from the first `assign` on: asking for offsets needs none, and ends after
    ``request_timeout_ms``.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, str | int | bool],
        *,
        topic_id: str | None = None,
        columns: Collection[str] = ("timestamps",),
        request_timeout_ms: int = 10_000,
    ) -> None:
        self._topic = topic
        self._config = dict(config)
        self._bootstrap = str(config.get("bootstrap.servers", ""))
        assert set(columns) <= set(COLUMNS), f"columns are {COLUMNS}"
        self._columns = frozenset(columns)
        self._request_s = request_timeout_ms / 1000
        self._consumer: Consumer | None = None
        self._admin: AdminClient | None = None
        self._positions: dict[int, int] = {}
        self._paused: set[int] = set()
        self._ended: dict[int, int] = {}  # partition -> offset at which its end was reported
        self._troubles: list[StreamError] = []
        self._watch = TopicWatch(topic, topic_id, self._describe, self._id_of, SystemClock())

    # ------------------------------------------------------------ reading

    def assign(self, positions: Mapping[int, int]) -> None:
        consumer = self._reader()
        self.resume(list(self._paused))  # the client keeps a pause over an assignment
        self._positions, self._ended, self._troubles = dict(positions), {}, []
        self._guard(lambda: consumer.assign([TopicPartition(self._topic, p, o) for p, o in positions.items()]))

    def pause(self, partitions: Collection[int]) -> None:
        assert set(partitions) <= self._positions.keys(), "only assigned partitions can be paused"
        wanted = set(partitions) - self._paused
        if wanted:
            consumer = self._reader()
            self._guard(lambda: consumer.pause([TopicPartition(self._topic, p) for p in wanted]))
            self._paused |= wanted

    def resume(self, partitions: Collection[int]) -> None:
        assert set(partitions) <= self._positions.keys(), "only assigned partitions can be resumed"
        wanted = set(partitions) & self._paused
        if wanted:
            consumer = self._reader()
            self._guard(lambda: consumer.resume([TopicPartition(self._topic, p) for p in wanted]))
            self._paused -= wanted

    def poll(self, max_records: int, timeout_ms: int) -> list[Poll]:
        assert max_records > 0
        consumer = self._reader()
        proved = self._watch.proves(timeout_ms / 1000)
        gathered = _Gathered(self._positions, self._columns)
        first = self._guard(lambda: consumer.poll(timeout_ms / 1000)) if proved else None
        if first is not None:
            gathered.add([first])
            self._drain(consumer, gathered, max_records)
        self._ended.update(gathered.ends)
        out = gathered.polls()
        for poll in out:
            self._positions[poll.partition] = poll.end_offset
        for error, partition in gathered.errors:
            self._troubles.append(self._failure(error, partition))
        if not out and self._troubles:
            raise self._troubles.pop(0)
        return out

    def _drain(self, consumer: Consumer, gathered: _Gathered, max_records: int) -> None:
        """Takes what the queue holds; waits for more only while the log is known to hold more."""
        rounds = 0
        wait_s = 0.0
        while gathered.count < max_records and gathered.size < _BYTES_MAX:
            size = min(_CONSUME, max_records - gathered.count)
            messages = self._guard(partial(consumer.consume, size, wait_s))
            if messages:
                gathered.add(messages)
            if len(messages) == size:
                wait_s = 0.0
                continue
            if rounds >= _GATHER_ROUNDS or gathered.errors or not self._behind(consumer, gathered):
                return
            rounds += 1
            wait_s = _GATHER_S

    def _behind(self, consumer: Consumer, gathered: _Gathered) -> bool:
        """Whether some partition's log goes on after what was gathered, as the last fetch saw it."""
        for partition in self._positions:
            position = gathered.position(partition)
            if partition in self._paused or position in (self._ended.get(partition), gathered.ends.get(partition)):
                continue
            marks = consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            if marks is not None and marks[1] > position:
                return True
        return False

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def _failure(self, error: KafkaError, partition: int) -> StreamError:
        if error.name() in OUT_OF_RANGE and partition in self._positions:
            return OffsetOutOfRange(self._topic, partition, self._positions[partition], *self._limits(partition))
        return self._error(error)

    def _limits(self, partition: int) -> tuple[int, int]:
        try:
            return self.earliest([partition])[partition], self.latest([partition])[partition]
        except StreamError:
            return -1, -1

    # ------------------------------------------------------------ offsets and topic

    def earliest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._offsets(partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED)

    def latest(self, partitions: Collection[int]) -> dict[int, int]:
        return self._offsets(partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED)

    def last_stable(self, partitions: Collection[int]) -> dict[int, int]:
        return self._offsets(partitions, _LATEST, IsolationLevel.READ_COMMITTED)

    def _offsets(self, partitions: Collection[int], spec: Any, isolation: IsolationLevel) -> dict[int, int]:
        if not partitions:
            return {}
        for _ in range(_LEADER_ROUNDS):
            try:
                found = self._list_offsets(partitions, spec, isolation)
            except KafkaException as e:
                error = e.args[0]
                if error.name() not in LEADERLESS:
                    raise self._error(error) from e
                absent = set(partitions) - set(self.partitions())
                if absent:
                    raise TopicMissing(self._topic, f"it has no partition {min(absent)}") from e
                missing = error.str()
            else:
                # The client passes on "no offset" (-1001, -1) while brokers of the partition come and go.
                unknown = [partition for partition, offset in found.items() if offset < 0]
                if not unknown:
                    return found
                missing = f"no offset is known of partition {min(unknown)}"
            self._asker().poll(_LEADER_WAIT_S)
        raise BrokerUnreachable(self._bootstrap, f"a partition has no leader: {missing}")

    def _list_offsets(self, partitions: Collection[int], spec: Any, isolation: IsolationLevel) -> dict[int, int]:
        wanted: dict[TopicPartition, Any] = {TopicPartition(self._topic, p): spec for p in partitions}
        futures = self._asker().list_offsets(wanted, isolation_level=isolation, request_timeout=self._request_s)
        return {place.partition: int(future.result().offset) for place, future in futures.items()}

    def partitions(self) -> list[int]:
        admin = self._asker()
        found = self._guard(lambda: admin.list_topics(self._topic, timeout=self._request_s)).topics[self._topic]
        if found.error is not None:
            raise self._error(found.error)
        return sorted(found.partitions)

    def topic_id(self) -> str | None:
        return self._id_of(self._describe())

    def _describe(self) -> Future[Any]:
        asked = self._asker().describe_topics(TopicCollection([self._topic]), request_timeout=self._request_s)
        answer: Future[Any] = asked[self._topic]
        return answer

    def _id_of(self, answer: Future[Any]) -> str | None:
        try:
            found = str(answer.result().topic_id)
        except KafkaException as e:
            if e.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
                return None
            raise self._error(e.args[0]) from e
        return found if found.strip("A=") else None  # the id of zeroes means: none

    def close(self) -> None:
        self._watch.close()
        consumer, self._consumer, self._admin = self._consumer, None, None
        self._positions = {}
        if consumer is not None:
            consumer.close()

    # ------------------------------------------------------------ the client

    def _reader(self) -> Consumer:
        if self._consumer is None:
            settings = {**self._config, "error_cb": self._on_error}
            self._consumer = self._guard(lambda: Consumer(settings, logger=_client_log))
        return self._consumer

    def _asker(self) -> AdminClient:
        if self._admin is None:
            settings: dict[str, Any] = {**asking(self._config), "error_cb": self._on_error}
            self._admin = self._guard(lambda: AdminClient(settings, logger=_client_log))
        return self._admin

    def _on_error(self, error: KafkaError) -> None:
        """Client-wide errors, called inside a poll; one broker's lost connection is not one of them."""
        if error.name() in REFUSED or error.code() == KafkaError._ALL_BROKERS_DOWN:
            # not `_error`: it polls, and a poll inside a callback of a poll aborts the process
            self._troubles.append(self._named(error))
            del self._troubles[:-8]

    def _guard(self, call: Callable[[], T]) -> T:
        """Runs one call of the client and turns its exception into ours."""
        try:
            return call()
        except KafkaException as e:
            raise self._error(e.args[0]) from e

    def _error(self, error: KafkaError) -> StreamError:
        if error.name() in AWAY and self._admin is not None:
            self._admin.poll(0)  # a refused login shows as a time-out; its reason waits in the callbacks
            for trouble in self._troubles:
                if isinstance(trouble, AuthenticationRefused):
                    self._troubles.remove(trouble)
                    return trouble
        return self._named(error)

    def _named(self, error: KafkaError) -> StreamError:
        return meaning(error.name(), error.str(), self._topic, self._bootstrap)


class _Gathered:
    """Turns the messages of one poll into columns, chunk by chunk, so that no message outlives its chunk."""

    def __init__(self, positions: Mapping[int, int], columns: Collection[str]) -> None:
        self.count = 0
        self.size = 0  # bytes of the values
        self.ends: dict[int, int] = {}  # partition -> offset at which its end was reported
        self.errors: list[tuple[KafkaError, int]] = []
        self._positions = positions
        self._wanted = columns
        self._columns: dict[int, Columns] = {}

    def position(self, partition: int) -> int:
        """The next offset after what was gathered."""
        columns = self._columns.get(partition)
        return max(self._positions[partition] if columns is None else columns.end, self.ends.get(partition, 0))

    def add(self, messages: list[Message]) -> None:
        """Takes one batch in queue order; ends of partitions and errors are taken out."""
        if any(map(Message.error, messages)):
            messages = [m for m in messages if self._is_record(m)]
        at = 0
        for partition, run in groupby(list(map(_partition_of, messages))):
            size = sum(1 for _ in run)
            if partition in self._positions:
                self._extend(partition, messages[at : at + size])
            at += size

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            if _partition_of(message) in self._positions:
                self.ends[_partition_of(message)] = _offset_of(message)
        else:
            self.errors.append((error, _partition_of(message)))
        return False

    def _extend(self, partition: int, chunk: list[Message]) -> None:
        columns = self._columns.get(partition)
        if columns is None:
            columns = self._columns[partition] = Columns(self._positions[partition])
        if _offset_of(chunk[0]) < columns.end:  # fetched again: never give a record twice
            chunk = [m for m in chunk if _offset_of(m) >= columns.end]
            if not chunk:
                return
        first, last = _offset_of(chunk[0]), _offset_of(chunk[-1])
        self.count += len(chunk)
        columns.end = last + 1
        values = list(map(Message.value, chunk))
        columns.values += values
        self.size += sum(map(len, filter(None, values)))
        full = last - first + 1 == len(chunk)
        columns.spans.append(range(first, last + 1) if full else list(map(_offset_of, chunk)))
        if "timestamps" in self._wanted:
            columns.timestamps.extend(map(_second, map(Message.timestamp, chunk)))
        if "keys" in self._wanted:
            columns.keys.extend(map(Message.key, chunk))
        if "headers" in self._wanted:
            columns.headers.extend(_headers_of(m) or () for m in chunk)

    def polls(self) -> list[Poll]:
        """One poll for each partition whose position moved."""
        out: list[Poll] = []
        for partition in self._columns.keys() | self.ends.keys():
            before, end = self._positions[partition], self.position(partition)
            columns = self._columns.get(partition) or Columns(before)
            if end > before:
                out.append(columns.poll(partition, before, end, self._wanted))
        return out
