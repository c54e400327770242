"""A stream whose content is known: dense numbers per partition, with records between them that cannot become rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.chaos.content import Content

FIRST_MS = 1_780_000_000_000
HOUR_MS = 3_600_000
BAD_EVERY = 97
NULL_EVERY = 211
ABORT_EVERY = 10
PAUSE_S = 5.0


class Flow:
    """One thread. Row ``seq`` of partition ``p`` follows ``seq - 1`` there, so any prefix proves itself.

    ``content.sent`` counts rows per partition before they leave: nobody may ever see more. The producer is
    idempotent and never gives up, so a broker that dies writes nothing twice and loses nothing.
    ``transactional`` writes in transactions, some of them aborted: their records must never be seen, and
    offsets have holes. ``compacted`` gives every row a key of its own and all others the same one, so that
    compaction leaves rows alone and makes holes between them.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, partitions: int, rate: float, transactional: bool, compacted: bool = False
    ) -> None:
        self._bootstrap = bootstrap
        self._transactional = transactional
        self._compacted = compacted
        self._topic = topic
        self._rate = rate
        self._producer = self._new_producer()
        self._opened = False
        self._stop = threading.Event()
        self._holding = threading.Event()
        self._held = threading.Event()
        self._go = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self.content = Content(partitions)
        self._transactions = 0
        self.messages = 0
        self.bad = 0
        self.nulls = 0
        self.errors: list[str] = []

    def _new_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                **({"transactional.id": f"flow-{self._topic}"} if self._transactional else {"message.timeout.ms": 0}),
                "linger.ms": 5,
                "socket.timeout.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 2_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
                "enable.metrics.push": False,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> list[int]:
        """Ends the stream and waits until the broker has all of it; the rows sent per partition."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        left = self._producer.flush(90)
        assert left == 0, f"{left} records were not delivered 90 s after everything was healed"
        assert not self.errors, self.errors[:3]
        return list(self.content.sent)

    def hold(self) -> bool:
        """Sends nothing more until `go`; False (and goes on) when the broker has not got everything in time."""
        self._go.clear()
        self._held.clear()
        self._holding.set()
        if self._held.wait(PAUSE_S) and self._producer.flush(PAUSE_S) == 0:
            return True
        self.go()
        return False

    def go(self, *, another_topic: bool = False) -> None:
        """Sends on after `hold`; ``another_topic``: the topic was made again, and a new producer begins there."""
        if another_topic:
            self.content.forget_offsets()
            self._producer = self._new_producer()
            self._opened = False
        self._holding.clear()
        self._go.set()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.05):
                if self._holding.is_set():
                    self._held.set()
                    while not self._go.wait(0.1) and not self._stop.is_set():
                        pass
                elif self._transactional:
                    self._transaction()
                else:
                    self._some()
        except KafkaException as error:
            self.errors.append(f"the producer broke: {error}")

    def _some(self) -> None:
        for _ in range(max(1, int(self._rate / 20))):
            if not self._one():
                break
        self._producer.poll(0)

    def _transaction(self) -> None:
        """A batch that becomes visible as a whole, or, every tenth time, never."""
        if not self._opened:
            _insist(lambda: self._producer.init_transactions(10.0))
            self._opened = True
        before = (list(self.content.sent), self.messages, self.bad, self.nulls)
        self._transactions += 1
        self._producer.begin_transaction()
        self._some()
        is_for_nothing = self._transactions % ABORT_EVERY == 0
        if is_for_nothing:
            # Its records are to be in the log; and one that is aborted before the broker knows of it may end its
            # producer for good (INVALID_TXN_STATE).
            self._producer.flush(PAUSE_S)
        if is_for_nothing or not _insist(lambda: self._producer.commit_transaction(10.0)):
            _insist(lambda: self._producer.abort_transaction(10.0))
            sent, self.messages, self.bad, self.nulls = before
            self.content.sent[: len(sent)] = sent  # partitions may have been added meanwhile
            self.content.sent[len(sent) :] = [0] * (len(self.content.sent) - len(sent))

    def _one(self) -> bool:
        """Sends the next record; False while the broker takes none."""
        number, sent = self.messages, self.content.sent
        partition = number % len(sent)
        bad, null = number % BAD_EVERY == BAD_EVERY - 1, number % NULL_EVERY == NULL_EVERY - 1
        is_row = not bad and not null
        seq = sent[partition]
        value = self._row(partition, seq) if is_row else (b'{"time": 17, "seq"' if bad else None)
        key = (f"{partition}-{seq}" if is_row else "no row").encode() if self._compacted else None
        if is_row:
            sent[partition] += 1
        told = partial(self._delivered, seq if is_row else None)
        try:
            self._producer.produce(self._topic, value, key, partition=partition, on_delivery=told)
        except (BufferError, KafkaException) as error:
            if isinstance(error, KafkaException) and error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
                raise
            if is_row:  # one of a partition that was just added: the client has not heard of it yet
                sent[partition] -= 1
            return False
        self.messages += 1
        self.bad += bad
        self.nulls += null and not bad
        return True

    def _row(self, partition: int, seq: int) -> bytes:
        at_ms = FIRST_MS + (seq % 1_000) * 20 + (HOUR_MS if seq % 50 == 49 else 0)
        return json.dumps({"time": at_ms, "p": partition, "seq": seq, "word": f"w{seq % 37}"}).encode()

    def _delivered(self, row: int | None, error: Any, message: Any) -> None:
        if error is not None:
            if not self._transactional:
                self.errors.append(str(error))
        elif row is not None:
            self.content.delivered(message.partition(), row, message.offset())


def _insist(action: Callable[[], object]) -> bool:
    """Repeats a step of a transaction until it is done; False when the transaction must be aborted instead."""
    while True:
        try:
            action()
        except KafkaException as error:
            cause = error.args[0]
            if cause.txn_requires_abort():
                return False
            if not cause.retriable():
                raise
        else:
            return True


def spec(bootstrap: str, topic: str, replicas: int, groups: int, *, rows_per_segment: int) -> dict[str, Any]:
    """The supervisor ``chaos`` over such a stream; it moves on by itself where records have expired."""
    return {
        "type": "kafka",
        "spec": {
            "dataSchema": {
                "dataSource": "chaos",
                "timestampSpec": {"column": "time", "format": "millis"},
                "dimensionsSpec": {
                    "dimensions": [{"type": "long", "name": "p"}, {"type": "long", "name": "seq"}, "word"]
                },
                "granularitySpec": {"segmentGranularity": "HOUR", "queryGranularity": "NONE", "rollup": False},
            },
            "ioConfig": {
                "topic": topic,
                "inputFormat": {"type": "json"},
                "consumerProperties": {"bootstrap.servers": bootstrap},
                "useEarliestOffset": True,
                "replicas": replicas,
                "taskCount": groups,
                "taskDuration": "PT30S",
            },
            "tuningConfig": {
                "type": "kafka",
                "maxRowsPerSegment": rows_per_segment,
                "maxRowsInMemory": 700,
                "resetOffsetAutomatically": True,
            },
        },
    }
