"""Writes records that could not be read into Parquet files: raw bytes, place, time, reason (PR-21). Reads them, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.appenderator.decoding.batch import Rejected
from ingest.appenderator.hydrant import QuarantinePart
from segments.errors import SegmentCorrupt
from segments.storage.durable import disk_error, replace_durably, sync_file, temporary_beside

_FIELDS: Final[list[pa.Field[Any]]] = [
    pa.field("topic", pa.string(), nullable=False),
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
    pa.field("reason", pa.string(), nullable=False),
    pa.field("value", pa.binary()),
    pa.field("key", pa.binary()),
    pa.field("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    pa.field("parts", pa.string()),
    pa.field("documents", pa.list_(pa.int32())),
    pa.field("documents_of", pa.int32()),
]
_SHOWN: Final = ["topic", "partition", "offset", "timestamp", "reason", "value"]
_READ_ROWS: Final = 64
QUARANTINE_SCHEMA: Final = pa.schema(_FIELDS)
"""Columns of a quarantine file; ``timestamp`` is Kafka's, null where the record has none. ``parts`` names what was
read beside the value (``headers``, ``keys``), null in files that know of neither. ``documents`` are the positions of
those documents of the message that became no row, among ``documents_of``; null where none became one."""


def write_part(records: Sequence[Rejected], topic: str, path: Path) -> QuarantinePart:
    """Writes records to a file that is whole, synced and under its name when this returns.

    Raises:
        StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused.
    """
    sources = [record.source or (topic, record.partition) for record in records]
    columns: dict[str, list[Any]] = {
        "topic": [source[0] for source in sources],
        "partition": [source[1] for source in sources],
        "offset": [record.offset for record in records],
        "timestamp": [record.timestamp_ms if record.timestamp_ms >= 0 else None for record in records],
        "reason": [record.reason for record in records],
        "value": [record.value for record in records],
        "key": [record.key for record in records],
        "headers": [_headers_cell(record) for record in records],
        "parts": [",".join(sorted(record.parts)) for record in records],
        "documents": [None if r.documents is None else list(r.documents.positions) for r in records],
        "documents_of": [None if r.documents is None else r.documents.of for r in records],
    }
    arrays = {name: pa.array(cells, QUARANTINE_SCHEMA.field(name).type) for name, cells in columns.items()}
    return QuarantinePart(path, len(records), _write([pa.table(arrays, schema=QUARANTINE_SCHEMA)], path))


def _headers_cell(record: Rejected) -> list[dict[str, Any]] | None:
    return None if record.headers is None else [{"name": name, "value": value} for name, value in record.headers]


def join_parts(parts: Sequence[QuarantinePart], path: Path) -> QuarantinePart:
    """One file with the records of all parts, a part in memory at a time; durable as ``write_part``."""
    tables = (_completed(pq.read_table(part.path, use_threads=False)) for part in parts)
    return QuarantinePart(path, sum(part.rows for part in parts), _write(tables, path))


def _completed(table: pa.Table) -> pa.Table:
    """With nulls in columns that an earlier version did not write."""
    absent = [field for field in QUARANTINE_SCHEMA if field.name not in table.column_names]
    for field in absent:
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(QUARANTINE_SCHEMA.names).cast(QUARANTINE_SCHEMA)


def read_records(path: Path, skip: int, limit: int, bytes_max: int) -> tuple[int, list[dict[str, Any]]]:
    """How many records the file has, and at most ``limit`` of them after the first ``skip``, by column name.

    Fewer when their values come to more than ``bytes_max``, but one at least; ``timestamp`` is milliseconds or None.

    Raises:
        SegmentCorrupt: it is no whole quarantine file.
    """
    found: list[dict[str, Any]] = []
    held = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in _after(file, skip):
                for record in batch.slice(0, limit - len(found)).to_pylist():
                    held += len(record["value"] or b"")
                    if found and held > bytes_max:
                        return file.metadata.num_rows, found
                    found.append(record)
                if len(found) == limit:
                    break
            return file.metadata.num_rows, found
    except (pa.ArrowException, KeyError) as error:
        raise SegmentCorrupt(f"{path.name}: it is no whole quarantine file: {error}") from error


def _after(file: pq.ParquetFile, skip: int) -> Iterator[pa.RecordBatch]:
    """The records after the first ``skip``; row groups before them are not read."""
    left = skip
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if left >= rows:
            left -= rows
            continue
        for batch in file.iter_batches(_READ_ROWS, row_groups=[group], columns=_SHOWN, use_threads=False):
            if left < batch.num_rows:
                rest = batch.slice(left)
                # An instant of Kafka's may lie where Python has no year.
                at = rest.schema.get_field_index("timestamp")
                yield rest.set_column(at, "timestamp", rest.column(at).cast(pa.int64()))
            left = max(left - batch.num_rows, 0)


def _write(tables: Iterable[pa.Table], path: Path) -> int:
    try:
        with temporary_beside(path) as (file, temporary):
            sink: Any = file
            with pq.ParquetWriter(sink, QUARANTINE_SCHEMA, compression="zstd") as writer:
                for table in tables:
                    writer.write_table(table)
            sync_file(file)
            size_bytes = file.tell()
            replace_durably(temporary, path)
    except OSError as error:
        raise disk_error(error, path, "writing the quarantine to") from error
    return size_bytes
