"""Builds specs, polls and sequences for tests of the row path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, SequenceRef
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.stream.supplier import Poll

OPENED_MS = 1_700_000_000_000


def spec_of(data_schema: dict[str, Any], **parts: Any) -> SupervisorSpec:
    """A spec with this dataSchema; ``io``, ``tuning`` and ``input_format`` add to the rest."""
    posted = {
        "type": "kafka",
        "spec": {
            "dataSchema": {"dataSource": "table", "timestampSpec": {"column": "t"}, **data_schema},
            "ioConfig": {
                "topic": "topic",
                "inputFormat": {"type": "json", **parts.get("input_format", {})},
                "consumerProperties": {"bootstrap.servers": "localhost:9092"},
                **parts.get("io", {}),
            },
            "tuningConfig": {"type": "kafka", **parts.get("tuning", {})},
        },
    }
    return parse_supervisor_spec(posted)[0]


def poll_of(values: Sequence[Any], first: int = 0, partition: int = 0, timestamps_ms: list[int] | None = None) -> Poll:
    """One poll of messages at successive offsets; objects are sent as JSON, bytes and None as they are."""
    messages = [v if v is None or isinstance(v, bytes) else orjson.dumps(v) for v in values]
    return Poll(partition, first, first + len(values), range(first, first + len(values)), messages, timestamps_ms or [])


def record_of(
    number: int = 1, start: dict[int, int] | None = None, end: dict[int, int] | None = None
) -> SequenceRecord:
    """A sequence of group 7; all partitions of epoch 0."""
    begin = OffsetMap(start or {0: 0})
    return SequenceRecord(
        SequenceRef("table", 7, number),
        begin,
        OffsetMap({partition: 0 for partition in begin}),
        1,
        OPENED_MS,
        end=None if end is None else OffsetMap(end),
    )
