"""Sends the edits at a steady rate, and goes on after any end where the topic shows that it stopped.

    python -m server.quickstart.producer --kafka 127.0.0.1:9092 --topic wikipedia-edits --state FILE

A record's key is the number of its event. The state file is a snapshot of what was acknowledged;
at the next start the records behind it are read from the topic, so that no event is sent twice and
the counts are exact even after kill -9.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ingest.stream.refusals import LEADERLESS
from server.quickstart.edits import Edit, Edits, spelt

_TICK_S = 0.02
_SAVE_S = 1.0
_DEBT_S = 2.0  # after a pause no more than this is made up for
_WAIT_S = 15.0
_JUST_MADE = LEADERLESS | {"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC"}
_CLIENT: dict[str, Any] = {
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 2_000,
    "reconnect.backoff.max.ms": 1_000,
    "enable.metrics.push": False,
    "log_level": 3,
}


class ProducerFailed(Exception):
    """The broker refuses for good, or the topic does not fit; the message says what to do."""


@dataclass(slots=True)
class Produced:
    """What the broker has acknowledged. ``added`` sums the column of that name over well-formed events."""

    seed: int = 0
    topic_id: str = ""
    messages: int = 0
    late: int = 0
    malformed: int = 0
    added: int = 0
    last_events: list[int] = field(default_factory=list)  # by partition, -1 for none
    offsets: list[int] = field(default_factory=list)  # by partition, next offset
    first_ms: int = 0
    last_ms: int = 0

    def count(self, edit: Edit, offset: int, now_ms: int) -> None:
        """Adds one acknowledged event."""
        self.messages += 1
        self.late += edit.late_by_ms > 0
        self.malformed += edit.malformed
        self.added += edit.added
        self.last_events[edit.partition] = edit.number
        self.offsets[edit.partition] = offset + 1
        self.first_ms = self.first_ms or now_ms
        self.last_ms = now_ms


class EditProducer:
    """One producer with its state file. `run` belongs to one thread; `snapshot` is for any."""

    def __init__(
        self, bootstrap: str, topic: str, state: Path, *, rate: float = 200.0, partitions: int = 4, seed: int = 1
    ) -> None:
        assert rate > 0
        self._bootstrap = bootstrap
        self._topic = topic
        self._state = state
        self._rate = rate
        self._edits = Edits(seed, partitions)
        self._partitions = partitions
        self._seed = seed
        self._failure: KafkaError | None = None
        self._done = Produced()

    def snapshot(self) -> Produced:
        """What was acknowledged until now."""
        return self._done

    def run(self, stop: threading.Event) -> Produced:
        """Sends until ``stop`` is set; then everything sent is acknowledged or given up, and saved.

        Raises:
            ProducerFailed: see its message.
        """
        self._done = self._resumed()
        producer = Producer(
            {
                **_CLIENT,
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "compression.type": "lz4",
                "message.timeout.ms": 0,  # a broker that is away is waited for
            }
        )
        try:
            self._send(producer, stop)
        finally:
            producer.flush(_WAIT_S)
            self._save()
        return self._done

    def _send(self, producer: Producer, stop: threading.Event) -> None:
        number = min(self._done.last_events) + 1
        began, sent, saved = time.monotonic(), 0, 0.0
        while not stop.is_set() and self._failure is None:
            now = time.monotonic()
            if (now - began) * self._rate - sent > _DEBT_S * self._rate:
                began = now - _DEBT_S - sent / self._rate
            while sent < (now - began) * self._rate and len(producer) < 10_000:
                number = self._send_next(producer, number)
                sent += 1
            producer.poll(0)
            if now - saved >= _SAVE_S:
                self._save()
                saved = now
            stop.wait(_TICK_S)
        if self._failure is not None:
            raise ProducerFailed(f"{self._bootstrap} refused a record of {self._topic!r}: {self._failure.str()}")

    def _send_next(self, producer: Producer, number: int) -> int:
        """Sends the first event from ``number`` on that the topic does not have, and returns the one after it."""
        edit = self._edits.event(number)
        while edit.number <= self._done.last_events[edit.partition]:
            edit = self._edits.event(edit.number + 1)
        now_ms = time.time_ns() // 1_000_000

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failure = self._failure or error
                return
            offset = message.offset()
            assert offset is not None
            self._done.count(edit, offset, now_ms)

        producer.produce(
            self._topic,
            spelt(edit, now_ms),
            key=str(edit.number).encode(),
            partition=edit.partition,
            timestamp=now_ms,
            on_delivery=delivered,
        )
        return edit.number + 1

    # ------------------------------------------------------------ where it stopped

    def _resumed(self) -> Produced:
        topic_id = ensure_topic(self._bootstrap, self._topic, self._partitions)
        fresh = Produced(self._seed, topic_id, last_events=[-1] * self._partitions, offsets=[0] * self._partitions)
        known = self._load()
        if known is None or (known.seed, known.topic_id, len(known.offsets)) != (
            self._seed,
            topic_id,
            self._partitions,
        ):
            known = fresh
        try:
            self._catch_up(known)
        except KafkaException as e:
            if e.args[0].code() != KafkaError._AUTO_OFFSET_RESET or known is fresh:
                raise ProducerFailed(
                    f"{self._bootstrap} does not let {self._topic!r} be read: {e.args[0].str()}"
                ) from e
            self._catch_up(fresh)  # records are gone that the state speaks of
            known = fresh
        return known

    def _load(self) -> Produced | None:
        try:
            return Produced(**json.loads(self._state.read_text()))
        except (OSError, ValueError, TypeError):
            return None  # none yet, or of another version: the topic tells as much

    def _save(self) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._state.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self._done)))
        fresh.replace(self._state)

    def _catch_up(self, known: Produced) -> None:
        """Counts the records that are in the topic behind the state."""
        consumer = Consumer(
            {
                **_CLIENT,
                "bootstrap.servers": self._bootstrap,
                "group.id": "siltstone-quickstart",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        try:
            places = []
            for partition, offset in enumerate(known.offsets):
                low = log_start(consumer, self._topic, partition)
                # at offset 0 nothing is known: begin where the log does
                places.append(TopicPartition(self._topic, partition, low if offset == 0 else offset))
            consumer.assign(places)
            self._count_to_ends(consumer, known)
        finally:
            consumer.close()

    def _count_to_ends(self, consumer: Consumer, known: Produced) -> None:
        ended: set[int] = set()
        deadline = time.monotonic() + _WAIT_S
        while len(ended) < self._partitions:
            for message in consumer.consume(1000, 0.1):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    self._count_found(message, known)
                    deadline = time.monotonic() + _WAIT_S
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
                else:
                    raise KafkaException(error)
            if time.monotonic() > deadline:
                raise ProducerFailed(f"{self._bootstrap} gives no records of {self._topic!r}; is the broker well?")

    def _count_found(self, message: Message, known: Produced) -> None:
        key, partition, offset = message.key(), message.partition(), message.offset()
        assert partition is not None and offset is not None
        if not isinstance(key, bytes) or not key.isdigit():
            return  # somebody else's record
        edit = self._edits.event(int(key))
        if edit.partition == partition and edit.number > known.last_events[partition]:
            known.count(edit, offset, message.timestamp()[1])


def log_start(consumer: Consumer, topic: str, partition: int, wait_s: float = _WAIT_S) -> int:
    """The partition's first offset. A topic just made has no leaders for a moment: that is waited out.

    Raises:
        KafkaException: no answer within ``wait_s`` seconds, or the broker refuses.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=wait_s)
            return int(low)
        except KafkaException as e:
            if e.args[0].name() not in _JUST_MADE or time.monotonic() > deadline:
                raise
            consumer.poll(_TICK_S)


def ensure_topic(bootstrap: str, topic: str, partitions: int) -> str:
    """Makes the topic where it is missing and returns its id.

    Raises:
        ProducerFailed: no broker answers, or the topic has another number of partitions.
    """
    admin = AdminClient({**_CLIENT, "bootstrap.servers": bootstrap})
    try:
        found = admin.list_topics(topic, timeout=_WAIT_S).topics[topic]
        if found.error is not None:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_WAIT_S)
        elif len(found.partitions) != partitions:
            raise ProducerFailed(f"topic {topic!r} has {len(found.partitions)} partitions, not {partitions}")
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(_WAIT_S)
    except KafkaException as e:
        if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise ProducerFailed(f"no broker answers at {bootstrap}: {e.args[0].str()}") from e
        return ensure_topic(bootstrap, topic, partitions)
    return str(described.topic_id)


def main(words: list[str] | None = None) -> int:
    """Sends until SIGINT or SIGTERM; 1 where the broker refuses."""
    parser = argparse.ArgumentParser(prog="python -m server.quickstart.producer", description=__doc__)
    parser.add_argument("--kafka", required=True, metavar="HOST:PORT")
    parser.add_argument("--topic", default="wikipedia-edits")
    parser.add_argument("--state", type=Path, required=True, help="file that remembers what was sent")
    parser.add_argument("--rate", type=float, default=200.0, help="events a second")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args(words)
    stop = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: stop.set())
    producer = EditProducer(a.kafka, a.topic, a.state, rate=a.rate, partitions=a.partitions, seed=a.seed)
    try:
        done = producer.run(stop)
    except ProducerFailed as e:
        sys.stderr.write(f"error: {e}\n")
        return 1
    sys.stdout.write(json.dumps(asdict(done)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
