"""Reads a sample of a topic's records, for people who write a spec; assigns, polls, and leaves no trace."""

from __future__ import annotations

from typing import Any

from ingest.clock import Clock
from ingest.protocol import Source
from ingest.protocol.places import sources
from ingest.spec import parse_supervisor_spec
from ingest.spec.formats import parts_read
from ingest.stream.supplier import Poll
from ingest.stream.topics import NumberedTopics
from server.suppliers import kafka_samples

POLL_MS = 500


class TopicSamples:
    """``ingest.overlord.sampler.Reader`` over Kafka; safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, posted: dict[str, Any], rows: int, timeout_ms: int) -> list[Poll]:
        """At most ``rows`` records, from the log's start or, as the spec says, its last ones; fewer when time is over.

        Raises:
            SpecError: the consumer properties cannot be used.
            StreamError: the topic cannot be read.
        """
        spec, _ = parse_supervisor_spec(posted)
        parts = parts_read(spec.data_schema)
        return self._read(posted, rows, timeout_ms, parts, newest=not spec.io.use_earliest_offset)

    def last(self, posted: dict[str, Any], rows: int, timeout_ms: int, parts: frozenset[str]) -> list[Poll]:
        """The last records of every partition, whatever the spec begins with; ``parts`` beside their values.

        Raises as calling it does.
        """
        return self._read(posted, rows, timeout_ms, parts, newest=True)

    def starts(self, posted: dict[str, Any]) -> dict[Source, int]:
        """Where a new supervisor of this spec would begin now, by topic and partition. Raises as calling it does."""
        io = parse_supervisor_spec(posted)[0].io
        if io.bounds is not None:
            return {(io.topic, p): offset for p, offset in io.bounds.starts.items()}
        supplier = kafka_samples(posted, frozenset())
        try:
            partitions = supplier.partitions()
            found = supplier.earliest(partitions) if io.use_earliest_offset else supplier.latest(partitions)
            places = supplier.places() if isinstance(supplier, NumberedTopics) else ()
            return {source: found[p] for p, source, _ in sources(io.topic, None, found, places)}
        finally:
            supplier.close()

    def _read(
        self, posted: dict[str, Any], rows: int, timeout_ms: int, parts: frozenset[str], *, newest: bool
    ) -> list[Poll]:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        supplier = kafka_samples(posted, parts)
        try:
            partitions = supplier.partitions()
            first, last = supplier.earliest(partitions), supplier.latest(partitions)
            share = max(rows // max(len(partitions), 1), 1)
            if newest:
                # What a supervisor would read from now on is not there yet: the records just before it stand for that.
                first = {partition: max(first[partition], last[partition] - share) for partition in partitions}
            supplier.assign(first)
            polls: list[Poll] = []
            left = rows
            while left > 0 and self._clock.monotonic_ms() < deadline_ms:
                found = supplier.poll(left, min(POLL_MS, max(deadline_ms - self._clock.monotonic_ms(), 1)))
                polls += [poll for poll in found if len(poll)]
                left -= sum(map(len, found))
                if all(position >= last[partition] for partition, position in supplier.positions().items()):
                    break
            return polls
        finally:
            supplier.close()
