"""Builds stream suppliers from posted supervisor specs, secrets resolved here and nowhere else."""

from __future__ import annotations

import os
from typing import Any

from ingest.clock import SystemClock
from ingest.errors import SpecError
from ingest.spec import parse_supervisor_spec
from ingest.spec.formats import Registry
from ingest.stream.kafka import KafkaSupplier
from ingest.stream.properties import translate
from ingest.stream.registry import RegistrySchemas
from ingest.stream.registry_settings import registry_settings
from ingest.stream.schemas import WriterSchemas
from ingest.stream.supplier import RecordSupplier

LOOK_MS = 2_500
"""A supervisor's look at its stream fails after this. Three failures in a row make it unhealthy, and an
operator should see that of a broker that never answers within about ten seconds."""

LITTLE: dict[str, str | int | bool] = {"queued.min.messages": 1, "fetch.message.max.bytes": 64 << 10}
"""Settings of a consumer that wants one record of each partition."""


def kafka_reader(posted: dict[str, Any], topic_id: str | None, parts: frozenset[str]) -> RecordSupplier:
    """A task's supplier; it reads the topic's incarnation ``topic_id``, and ``parts`` of each record beside its value
    and time."""
    topic, config = _client(posted)
    return KafkaSupplier(topic, config, topic_id=topic_id, columns={"timestamps", *parts})


def registry_schemas(registry: Registry) -> WriterSchemas:
    """A task's view of a schema registry.

    Raises:
        SpecError: its settings cannot be used here, as where they name a variable that is not set.
    """
    settings = registry_settings(registry, os.environ)
    if settings.problems:
        raise SpecError(list(settings.problems))
    return RegistrySchemas(registry.urls, settings, SystemClock())


def kafka_observer(posted: dict[str, Any]) -> RecordSupplier:
    """A supervisor's supplier: it asks for partitions and offsets, and reads a record here and there for its time."""
    topic, config = _client(posted)
    return KafkaSupplier(topic, config | LITTLE, request_timeout_ms=LOOK_MS)


def _client(posted: dict[str, Any]) -> tuple[str, dict[str, str | int | bool]]:
    spec, _ = parse_supervisor_spec(posted)
    properties = translate(spec.io.consumer_properties, os.environ)
    if properties.problems:
        raise SpecError(list(properties.problems))
    return spec.io.topic, properties.config
