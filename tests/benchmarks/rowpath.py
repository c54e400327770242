"""Measures the row path beside a control in the same run: events a CPU second, peak memory, bytes stored.

Run by ``make bench``, or alone: ``python -m tests.benchmarks.rowpath --kind ad --rollup``. The control
reads and decodes the same messages and keeps nothing. Without ``--bootstrap`` messages come from
memory and the control is decoding alone; with it both consume a Kafka topic.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ingest.appenderator.appenderator import Appenderator
from ingest.appenderator.decoding import RowDecoder
from ingest.offsets import OffsetMap
from ingest.protocol import PendingSegment, SequenceRecord, SequenceRef
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.stream.kafka import KafkaSupplier
from ingest.stream.properties import translate
from ingest.stream.supplier import Poll
from segments.identity import SegmentId, data_source
from segments.interval import Interval
from tests.benchmarks.events import START_MS, ad_events, data_schema, edit_events

BATCH = 10_000
Source = Callable[[], Iterator[list[Poll]]]


def from_memory(messages: list[bytes]) -> Source:
    """The messages as one partition, a batch at a time."""

    def polls() -> Iterator[list[Poll]]:
        for at in range(0, len(messages), BATCH):
            part = messages[at : at + BATCH]
            yield [Poll(0, at, at + len(part), range(at, at + len(part)), list(part), [])]

    return polls


def from_kafka(bootstrap: str, topic: str, events: int) -> Source:
    """The topic's first partition from its start, through the product's own supplier."""

    def polls() -> Iterator[list[Poll]]:
        config = translate({"bootstrap.servers": bootstrap}).config
        supplier = KafkaSupplier(topic, config, columns=())
        supplier.assign({0: 0})
        got = 0
        while got < events:
            batch = supplier.poll(BATCH, 1_000)
            got += sum(len(poll) for poll in batch)
            yield batch
        supplier.close()

    return polls


def spec_of(kind: str, rollup: bool) -> SupervisorSpec:
    io = {"topic": "t", "inputFormat": {"type": "json"}, "consumerProperties": {"bootstrap.servers": "none"}}
    return parse_supervisor_spec({"type": "kafka", "spec": {"dataSchema": data_schema(kind, rollup), "ioConfig": io}})[
        0
    ]


def control(spec: SupervisorSpec, source: Source) -> float:
    """CPU seconds for reading and decoding alone, every field of the events."""
    decoder = RowDecoder(spec.data_schema)
    began = time.process_time()
    for polls in source():
        decoder.decode(polls, START_MS)
    return time.process_time() - began


def whole(spec: SupervisorSpec, source: Source, folder: Path, events: int) -> tuple[float, float, int]:
    """CPU seconds from reading to merged segments, those of the merge alone, and bytes stored."""
    version = "2026-01-01T00:00:00.000Z"

    def allocate(start_ms: int, end_ms: int) -> PendingSegment:
        name = SegmentId(data_source(spec.datasource), Interval(start_ms, end_ms), version)
        return PendingSegment(str(name), version, 0)

    rows = Appenderator(folder, 1, "token")
    start = OffsetMap({0: 0})
    record = SequenceRecord(SequenceRef(spec.datasource, 1, 1), start, start, 1, START_MS)
    began = time.process_time()
    rows.open_sequence(record, spec)
    for polls in source():
        rows.append(1, polls)
        rows.maintain(0)
    rows.persist()
    merging = time.process_time()
    merged = rows.merge(replace(record, end=rows.positions(1)), allocate)
    ended = time.process_time()
    assert merged.rows_in == events
    return ended - began, ended - merging, sum(file.segment.size_bytes for file in merged.files)


def measure(kind: str, rollup: bool, source: Source, events: int, rounds: int) -> dict[str, Any]:
    """Medians over rounds in which control and whole path take turns."""
    spec, every_field = spec_of(kind, rollup), spec_of(kind, False)
    controls, totals, merges, size_bytes = [], [], [], 0
    for _ in range(rounds):
        gc.collect()
        gc.freeze()
        controls.append(control(every_field, source))
        with tempfile.TemporaryDirectory() as folder:
            taken, merging, size_bytes = whole(spec, source, Path(folder), events)
        totals.append(taken)
        merges.append(merging)
    return {
        "events": events,
        "events_per_cpu_second": round(events / median(totals)),
        "control_per_cpu_second": round(events / median(controls)),
        "ratio": round(median(c / t for c, t in zip(controls, totals, strict=True)), 3),
        "merge_ns_per_event": round(median(merges) / events * 1e9),
        "bytes_per_event": round(size_bytes / events, 2),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("ad", "edit"), default="ad")
    parser.add_argument("--rollup", action="store_true")
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bootstrap", help="read a topic instead of memory")
    parser.add_argument("--topic", default="")
    args = parser.parse_args()
    if args.bootstrap:
        source = from_kafka(args.bootstrap, args.topic, args.events)
    else:
        source = from_memory((ad_events if args.kind == "ad" else edit_events)(args.events))
    print(json.dumps(measure(args.kind, args.rollup, source, args.events, args.rounds)))


if __name__ == "__main__":
    main()
