"""Builds stream suppliers from posted supervisor specs, secrets resolved here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ingest.clock import SystemClock
from ingest.errors import SpecError
from ingest.protocol import Place
from ingest.protocol.places import numbered
from ingest.spec import IOConfig, parse_supervisor_spec
from ingest.spec.formats import Registry
from ingest.stream.bounded import within
from ingest.stream.kafka import KafkaSupplier
from ingest.stream.kafka_topics import KafkaTopicsObserver, KafkaTopicsSupplier
from ingest.stream.properties import translate
from ingest.stream.registry import RegistrySchemas
from ingest.stream.registry_settings import registry_settings
from ingest.stream.schemas import WriterSchemas
from ingest.stream.supplier import RecordSupplier
from ingest.stream.topics import Naming

LOOK_MS = 2_500
"""A supervisor's look at its stream fails after this. Three failures in a row make it unhealthy, and an
operator should see that of a broker that never answers within about ten seconds."""

LITTLE: dict[str, str | int | bool] = {"queued.min.messages": 1, "fetch.message.max.bytes": 64 << 10}
"""Settings of a consumer that wants one record of each partition."""


def kafka_reader(
    posted: dict[str, Any], topic_id: str | None, parts: frozenset[str], places: Sequence[Place] = ()
) -> RecordSupplier:
    """A task's supplier; it reads the topic's incarnation ``topic_id``, and ``parts`` of each record beside its value
    and time. ``places`` are the partitions of several topics."""
    io, config = _client(posted)
    columns = {"timestamps", *parts}
    if io.topic_pattern is None:
        reader = KafkaSupplier(io.topic, config, topic_id=topic_id, columns=columns)
        return within(reader, None if io.bounds is None else io.bounds.ends)
    return KafkaTopicsSupplier(places, topic_id, config, columns=columns, named=io.topic_pattern)


def kafka_samples(posted: dict[str, Any], parts: frozenset[str]) -> RecordSupplier:
    """A supplier for a look at some records; of several topics each partition gets a number for the time being."""
    io, config = _client(posted)
    if io.topic_pattern is None:
        return kafka_reader(posted, None, parts)
    columns = {"timestamps", *parts}
    return KafkaTopicsObserver(io.topic_pattern, lambda found, _: numbered((), found), config, columns=columns)


def registry_schemas(registry: Registry) -> WriterSchemas:
    """A task's view of a schema registry.

    Raises:
        SpecError: its settings cannot be used here, as where they name a variable that is not set.
    """
    settings = registry_settings(registry, os.environ)
    if settings.problems:
        raise SpecError(list(settings.problems))
    return RegistrySchemas(registry.urls, settings, SystemClock())


def kafka_observer(posted: dict[str, Any], naming: Naming) -> RecordSupplier:
    """A supervisor's supplier: it asks for partitions and offsets, and reads a record here and there for its time."""
    io, config = _client(posted)
    if io.topic_pattern is None:
        one = KafkaSupplier(io.topic, config | LITTLE, request_timeout_ms=LOOK_MS)
        return within(one, None if io.bounds is None else io.bounds.ends)
    return KafkaTopicsObserver(io.topic_pattern, naming, config | LITTLE, request_timeout_ms=LOOK_MS)


def _client(posted: dict[str, Any]) -> tuple[IOConfig, dict[str, str | int | bool]]:
    spec, _ = parse_supervisor_spec(posted)
    properties = translate(spec.io.consumer_properties, os.environ)
    if properties.problems:
        raise SpecError(list(properties.problems))
    return spec.io, properties.config
