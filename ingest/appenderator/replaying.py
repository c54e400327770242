"""Reads a quarantine file's records again, by a spec of today: rows to segments, what is bad again to a new file.

The row path is a task's own. A record keeps its place, its Kafka time and the stored time of the sequence that read
it first, so that windows judge it as they would have then. Of a message some of whose documents are rows already
only the others are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.appenderator.appenderator import Appenderator
from ingest.appenderator.merging import Allocate, MergedSequence
from ingest.errors import IngestError, StreamError
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, Source
from ingest.spec import SupervisorSpec
from ingest.spec.formats import KafkaFormat, parts_read
from ingest.stream.schemas import SchemaSources
from ingest.stream.supplier import OpenDocuments, Poll
from segments.errors import SegmentCorrupt

BATCH_ROWS: Final = 500
_UNBOUNDED: Final = 2**62


class NotReplayable(IngestError):
    """A quarantine file does not hold what the spec needs; nothing was changed."""

    effect_known_absent = True


@dataclass(frozen=True, slots=True)
class Sources:
    """The stream's name, and the numbers of its partitions where it is one of several topics; an empty folder to
    work in, what opens schema registries, and who is told (``wait``) why one cannot be asked now, and raises when it
    gives up."""

    stream: str
    places: Mapping[Source, int]
    directory: Path
    schemas: SchemaSources | None
    wait: Callable[[StreamError], None]


@dataclass(frozen=True, slots=True)
class Reread:
    """What a replay publishes: ``start`` to ``end`` span the records of each partition."""

    merged: MergedSequence
    start: OffsetMap
    end: OffsetMap


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a file before a record is read."""

    start: OffsetMap
    end: OffsetMap


def reread(
    source: Path,
    spec: SupervisorSpec,
    record: SequenceRecord,
    allocate: Allocate,
    sources: Sources,
) -> Reread:
    """Files below ``sources.directory``, whole and synced when it returns. ``record`` names the replay; its range is
    the file's.

    Raises:
        NotReplayable: it was kept without what the spec reads.
        SegmentCorrupt: it is no whole quarantine file.
    """
    try:
        with pq.ParquetFile(source) as file:
            facts = _facts_of(file, source.name, parts_read(spec.data_schema), sources.places)
            record = replace(record, start=facts.start, end=facts.end, epochs=OffsetMap({p: 0 for p in facts.start}))
            rows = Appenderator(sources.directory, record.ref.group, "replay", sources.schemas)
            rows.open_sequence(record, _for_replay(spec, sources.stream))
            at = dict(facts.start)
            for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
                _append(rows, record.ref.number, _polls_of(batch, at, sources.places), sources.wait)
                rows.maintain(0)  # by size alone
    except (pa.ArrowException, KeyError) as error:
        raise SegmentCorrupt(f"{source.name}: it is no whole quarantine file: {error}") from error
    return Reread(rows.merge(record, allocate), facts.start, facts.end)


def _append(rows: Appenderator, number: int, polls: list[Poll], wait: Callable[[StreamError], None]) -> None:
    while True:
        try:
            rows.append(number, polls)
            return
        except StreamError as error:
            wait(error)


def _facts_of(file: pq.ParquetFile, name: str, needed: frozenset[str], places: Mapping[Source, int]) -> _Facts:
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    known: set[str | None] = set()
    if "parts" not in file.schema_arrow.names:
        known.add(None)
    columns = [each for each in ("topic", "partition", "offset", "parts") if each in file.schema_arrow.names]
    for batch in file.iter_batches(columns=columns, use_threads=False):
        for row in batch.to_pylist():
            partition, offset = _number(row, places), row["offset"]
            if offset < end.get(partition, 0):
                raise SegmentCorrupt(f"{name}: offset {offset} of partition {partition} is out of order")
            start.setdefault(partition, offset)
            end[partition] = offset + 1
            known.add(row.get("parts"))
    if None in known:
        raise NotReplayable(
            f"{name} was written by an earlier version, which did not note which documents of a message became rows; "
            "export it and send the records to the topic again"
        )
    held = frozenset.intersection(*(frozenset(filter(None, str(each).split(","))) for each in known))
    if not needed <= held:
        raise NotReplayable(
            f"{name} was kept without {' and '.join(sorted(needed - held))}, which the spec reads now; replay it under "
            "a spec that does not, or read the range from the topic again"
        )
    return _Facts(OffsetMap(start), OffsetMap(end))


def _for_replay(spec: SupervisorSpec, topic: str) -> SupervisorSpec:
    """The spec for records of this topic, without the limits that end a sequence."""
    form = spec.data_schema.input_format
    if isinstance(form, KafkaFormat):
        form = replace(form, topic=topic)
    return replace(
        spec,
        data_schema=replace(spec.data_schema, input_format=form),
        io=replace(spec.io, topic=topic),
        tuning=replace(spec.tuning, max_rows_per_segment=_UNBOUNDED, max_total_rows=_UNBOUNDED),
    )


def _polls_of(batch: pa.RecordBatch, at: dict[int, int], places: Mapping[Source, int]) -> list[Poll]:
    """One poll for each partition of a batch; ``at``, where each stands, is moved on."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["timestamp"] = columns["timestamp"].cast(pa.int64())
    rows = pa.table(columns).to_pylist()
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_number.setdefault(_number(row, places), []).append(row)
    return [_poll(number, found, at) for number, found in by_number.items()]


def _number(row: Mapping[str, Any], places: Mapping[Source, int]) -> int:
    """The partition, or the number that stands for it."""
    return places.get((row["topic"], row["partition"]), row["partition"])


def _poll(partition: int, rows: list[dict[str, Any]], at: dict[int, int]) -> Poll:
    first, end = at[partition], rows[-1]["offset"] + 1
    at[partition] = end
    read = set(str(rows[0]["parts"]).split(","))
    return Poll(
        partition=partition,
        first_offset=first,
        end_offset=end,
        offsets=[row["offset"] for row in rows],
        values=[row["value"] for row in rows],
        timestamps_ms=[-1 if row["timestamp"] is None else row["timestamp"] for row in rows],
        keys=[row["key"] for row in rows] if "keys" in read else None,
        headers=[_headers(row) for row in rows] if "headers" in read else None,
        source=(rows[0]["topic"], rows[0]["partition"]),
        documents=[_documents(row) for row in rows],
    )


def _headers(row: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(header["name"], header["value"]) for header in row["headers"] or ()]


def _documents(row: dict[str, Any]) -> OpenDocuments | None:
    positions = row["documents"]
    return None if positions is None else OpenDocuments(tuple(positions), row["documents_of"])
