"""Writes sorted record batches into one segment file, by the rules of docs/reference/segment-format.md."""

import base64
import contextlib
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from segments.data_segment import DataSegment, LoadSpec
from segments.parquet.codecs import ZSTD_LEVEL
from segments.parquet.footer import SegmentFileMeta, SegmentFooter
from segments.schema import TIME_COLUMN, SegmentSchema
from segments.storage.durable import disk_error, replace_durably

# Below 64 k rows each group's repeated dictionaries cost 20 to 80 % size; above, pruning by time gets coarse.
ROW_GROUP_ROWS = 131_072
_UNFINISHED = ".unfinished"
_STEP_ROWS = 16_384
_ENCODED = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The finished file: its counts and its proof. ``schema`` says which columns came out multi-value."""

    path: Path
    rows: int
    size_bytes: int
    checksum: str
    min_time_ms: int
    max_time_ms: int
    schema: SegmentSchema

    @property
    def multi_value_columns(self) -> frozenset[str]:
        return self.schema.multi_value_columns

    def to_segment(self, meta: SegmentFileMeta, load_spec: LoadSpec) -> DataSegment:
        """The record to publish, once the file lies where ``load_spec`` says; ``meta`` is what it was written with."""
        return DataSegment(
            id=meta.id,
            rows=self.rows,
            size_bytes=self.size_bytes,
            schema=self.schema,
            load_spec=load_spec,
            min_time_ms=self.min_time_ms,
            max_time_ms=self.max_time_ms,
            offsets=meta.offsets,
            checksum=self.checksum,
            spec_version=meta.spec_version,
            sequence=meta.sequence,
            input_rows=meta.input_rows,
        )


class SegmentFileWriter:
    """Takes batches in sorted order and writes them in row groups; for one thread.

    The file appears under its path, synced, when ``close`` returns, and never half-written. Leaving the
    ``with`` block by an error discards it.

    ``without_statistics`` names float columns that may hold NaN: Parquet's minimum and maximum leave NaN
    out, and readers that prune by them would lose those rows. ``encoded`` names text columns whose batches
    come dictionary-encoded, without repeats in a dictionary; ``unique`` dimensions for which none is tried.
    What a reader sees is the same.
    """

    def __init__(
        self,
        path: Path,
        schema: SegmentSchema,
        meta: SegmentFileMeta,
        without_statistics: Iterable[str] = (),
        *,
        encoded: Iterable[str] = (),
        unique: Iterable[str] = (),
    ) -> None:
        self._path = path
        self._schema = schema
        self._meta = meta
        self._unfinished = path.with_name(path.name + _UNFINISHED)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._rows = 0
        self._times: list[int] = []
        self._stored = arrow_schema = schema.to_arrow()
        direct, plain = frozenset(encoded), frozenset(unique)
        self.batch_schema = pa.schema(
            [field.with_type(_ENCODED) if field.name in direct else field for field in arrow_schema]
        )
        # The smallest and largest bytes of sketches say nothing.
        skipped = frozenset(without_statistics) | {c.name for c in schema.columns if c.is_sketch}
        try:
            self._writer = pq.ParquetWriter(
                self._unfinished,
                self.batch_schema,
                compression={_leaf(schema, column.name): meta.codecs.of(column) for column in schema.columns},
                compression_level={
                    _leaf(schema, column.name): ZSTD_LEVEL
                    for column in schema.columns
                    if meta.codecs.of(column) == "zstd"
                },
                version="2.6",
                # The stubs know of a bool only.
                use_dictionary=[_leaf(schema, name) for name in schema.dimensions if name not in plain],  # type: ignore[arg-type]
                column_encoding={TIME_COLUMN: "DELTA_BINARY_PACKED"},
                write_statistics=[_leaf(schema, name) for name in arrow_schema.names if name not in skipped],
                # The bounds of encoded texts are found anew for every step of so many rows.
                write_batch_size=_STEP_ROWS,
                store_schema=False,
            )
        except OSError as error:
            raise disk_error(error, self._unfinished, "creating") from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows that sort after all before them. Columns as in ``batch_schema``.

        Raises:
            StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused.
        """
        if not batch.num_rows:
            return
        times = batch.column(batch.schema.get_field_index(TIME_COLUMN)).cast(pa.int64()).to_numpy()
        self._times = [min([*self._times[:1], int(times.min())]), max([*self._times[1:], int(times.max())])]
        self._rows += batch.num_rows
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        while self._pending_rows >= ROW_GROUP_ROWS:
            self._write_group(ROW_GROUP_ROWS)

    def close(self) -> WriteResult:
        """Writes the rest and the footer, syncs, and gives the file its name.

        Raises:
            as ``write``.
        """
        assert self._rows, "a segment without rows is not written"
        if self._pending_rows:
            self._write_group(self._pending_rows)
        footer = SegmentFooter(self._meta, self._schema, self._rows, self._times[0], self._times[1])
        try:
            # What batches are made of is nobody's business: the file says what a segment's columns are.
            arrow = {"ARROW:schema": base64.b64encode(self._stored.serialize()).decode()}
            self._writer.add_key_value_metadata(footer.to_metadata() | arrow)
            self._writer.close()
            with self._unfinished.open("rb+") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
                size_bytes = file.tell()
                os.fsync(file.fileno())
            replace_durably(self._unfinished, self._path)
        except OSError as error:
            raise disk_error(error, self._path, "writing") from error
        return WriteResult(
            path=self._path,
            rows=self._rows,
            size_bytes=size_bytes,
            checksum=checksum,
            min_time_ms=footer.min_time_ms,
            max_time_ms=footer.max_time_ms,
            schema=self._schema,
        )

    def discard(self) -> None:
        """Removes what was written; harmless after ``close``."""
        # Closing an open writer writes its end once more, which a full disk refuses again.
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._unfinished.unlink(missing_ok=True)

    def __enter__(self) -> "SegmentFileWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def _write_group(self, rows: int) -> None:
        table = pa.Table.from_batches(self._pending)
        rest = table.slice(rows)
        self._pending = rest.to_batches()
        self._pending_rows = rest.num_rows
        group = table.slice(0, rows)
        if group.column(0).num_chunks > 1:
            # A column chunk of two dictionaries would be written without any.
            group = group.unify_dictionaries()
        try:
            self._writer.write_table(group, row_group_size=rows)
        except OSError as error:
            raise disk_error(error, self._unfinished, "writing") from error


def _leaf(schema: SegmentSchema, name: str) -> str:
    """How Parquet calls the column that holds the values; a list's lie two levels down."""
    column = schema.column(name)
    is_list = column is not None and (column.is_list or column.type.element is not None)
    return f"{name}.list.element" if is_list else name
