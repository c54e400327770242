"""One producer a broker for all contract tests: an idempotent one needs half a second until it may send."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer

from tests.servers import topics

_kept: dict[str, Producer] = {}


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    timestamps_ms: Iterable[int] | None = None,
    keys: Iterable[bytes] | None = None,
) -> None:
    """As `topics.produce`, on a broker that lives as long as this process. One thread at a time."""
    # Taken out meanwhile: after a failure nobody has it.
    producer = _kept.pop(bootstrap, None) or topics.producer_for(bootstrap)
    topics.produce(
        bootstrap, topic, values, partition=partition, timestamps_ms=timestamps_ms, keys=keys, producer=producer
    )
    _kept[bootstrap] = producer


def forget(bootstrap: str) -> None:
    """After a topic was changed: what the producer knows of its partitions and its own numbers there is over."""
    _kept.pop(bootstrap, None)
