"""Merges what a finished sequence holds: one Parquet file per time chunk, and one for the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ingest.appenderator.decoding.assembly import aggregations
from ingest.appenderator.hydrant import Hydrant, Piece, QuarantinePart, Sums
from ingest.appenderator.quarantine import join_parts
from ingest.appenderator.schemas import conformed, fits, widest
from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts, PendingSegment, SequenceRecord
from ingest.spec.model import SupervisorSpec
from segments.data_segment import DataSegment
from segments.identity import SegmentId
from segments.interval import Interval
from segments.parquet.footer import SegmentFileMeta
from segments.parquet.merge import merge_spills
from segments.parquet.spill import open_runs, write_spill
from segments.schema import SegmentSchema

Allocate = Callable[[int, int], PendingSegment]
"""Gives the segment id of the time chunk ``[start_ms, end_ms)`` of the sequence being merged."""


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A local file to be pushed. ``segment`` says everything but where it will lie."""

    path: Path
    segment: DataSegment


@dataclass(frozen=True, slots=True)
class MergedSequence:
    """What one sequence publishes. ``counts`` cover exactly its range; ``rows_in`` is before rollup."""

    files: tuple[MergedFile, ...]
    quarantine: QuarantinePart | None
    counts: dict[int, PartitionCounts]
    rows_in: int
    rows_stored: int
    watermark_ms: OffsetMap


def merge_sequence(
    record: SequenceRecord, spec: SupervisorSpec, hydrants: Sequence[Hydrant], directory: Path, allocate: Allocate
) -> MergedSequence:
    """Writes the sequence's files below ``directory``; whole and synced when it returns. Safe to repeat.

    For the publish thread: the hydrants must be spilled and reach exactly the sequence's end.

    Raises:
        SpillUnreadable, StorageError: see ``segments.parquet.merge``; and whatever ``allocate`` raises.
    """
    assert all(hydrant.spilled for hydrant in hydrants), "a sequence is spilled before it is merged"
    assert record.end is not None
    sums = Sums.of(hydrants)
    reached = record.start.with_({partition: end for partition, (_, end) in sums.ranges.items()})
    assert reached == record.end, f"{record.ref.name} holds rows up to {reached}, not {record.end}"
    buckets = sorted({piece.bucket_ms for hydrant in hydrants for piece in hydrant.pieces})
    files = [_merge_bucket(bucket, record, spec, hydrants, directory, allocate) for bucket in buckets]
    parts = [part for hydrant in hydrants for part in hydrant.quarantine]
    quarantine = join_parts(parts, directory / f"{record.ref.number}.quarantined.parquet") if parts else None
    return MergedSequence(
        files=tuple(files),
        quarantine=quarantine,
        counts={p: sums.counts.get(p, PartitionCounts()) for p in record.start},
        rows_in=sum(sums.rows_in.values()),
        rows_stored=sum(file.segment.rows for file in files),
        watermark_ms=OffsetMap(sums.watermarks),
    )


def _merge_bucket(
    bucket_ms: int,
    record: SequenceRecord,
    spec: SupervisorSpec,
    hydrants: Sequence[Hydrant],
    directory: Path,
    allocate: Allocate,
) -> MergedFile:
    assert record.end is not None
    held = [(h, piece) for h in hydrants for piece in h.pieces if piece.bucket_ms == bucket_ms]
    schema = widest(hydrant.schema for hydrant, _ in held)
    interval = spec.data_schema.segment_granularity.bucket(bucket_ms)
    pending = allocate(interval.start_ms, interval.end_ms)
    segment_id = SegmentId.parse(pending.segment_id)
    input_rows = sum(hydrant.rows_in.get(bucket_ms, 0) for hydrant in hydrants)
    offsets = tuple((p, start, record.end[p]) for p, start in record.start.items())
    codecs = spec.tuning.codecs
    meta = SegmentFileMeta(segment_id, offsets, record.ref.name, record.spec_version, input_rows, codecs)
    rewritten: list[Path] = []
    try:
        sources = [_conforming(piece, hydrant, schema, rewritten) for hydrant, piece in held]
        rolling = aggregations(spec.data_schema) if spec.data_schema.rollup else None
        out = directory / f"{record.ref.number}-{_stamp(interval)}.parquet"
        result = merge_spills(sources, out, schema, rolling, meta)
    finally:
        for path in rewritten:
            path.unlink(missing_ok=True)
    segment = DataSegment(
        id=segment_id,
        rows=result.rows,
        size_bytes=result.size_bytes,
        schema=result.schema,
        load_spec={},
        min_time_ms=result.min_time_ms,
        max_time_ms=result.max_time_ms,
        offsets=offsets,
        checksum=result.checksum,
        spec_version=record.spec_version,
        sequence=record.ref.name,
        input_rows=input_rows,
    )
    return MergedFile(result.path, segment)


def _conforming(piece: Piece, hydrant: Hydrant, schema: SegmentSchema, rewritten: list[Path]) -> Path:
    """The spill's file itself, or a rewritten copy where a column has become wider since."""
    assert piece.path is not None
    if fits(hydrant.schema, schema):
        return piece.path
    inside = Interval(piece.min_time_ms, piece.max_time_ms + 1)
    rows = pa.Table.from_batches([run.batch for run in open_runs([piece.path], inside)])
    target = piece.path.with_suffix(".wider")
    write_spill(conformed(rows, schema), target)
    rewritten.append(target)
    return target


def _stamp(interval: Interval) -> str:
    return f"{interval.start_ms}"
