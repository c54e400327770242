"""Reads segment files: their footers, their rows pruned by column and time, and whether they prove what they claim."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from segments.arrow_schema import TIME_TYPE
from segments.errors import InvalidSchema, SegmentCorrupt, SegmentNotFound
from segments.interval import Interval
from segments.parquet.footer import SegmentFooter
from segments.schema import TIME_COLUMN
from segments.truncation import truncate_ms


@dataclass(frozen=True, slots=True)
class FooterProof:
    """What a whole read of a file found to be true."""

    footer: SegmentFooter
    checksum: str
    size_bytes: int


def read_footer(path: Path) -> SegmentFooter:
    """What the file says about itself; reads only its end.

    Raises:
        SegmentNotFound: no such file.
        SegmentCorrupt: not a whole segment file.
    """
    with _open(path) as file:
        return SegmentFooter.from_metadata(file.metadata.metadata, path)


def read_batches(
    path: Path, columns: Sequence[str] | None = None, interval: Interval | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows in stored order, one row group at a time.

    ``columns`` selects and orders (None: all). With ``interval`` only rows inside it come, and row groups
    without any are not read. Types are those of ``SegmentSchema.to_arrow``.

    Raises:
        SegmentNotFound, SegmentCorrupt.
        InvalidSchema: a column that the file does not have.
    """
    with _open(path) as file:
        wanted = list(columns) if columns is not None else file.schema_arrow.names
        unknown = [name for name in wanted if name not in file.schema_arrow.names]
        if unknown:
            raise InvalidSchema(f"{path} has no column {unknown[0]!r}")
        reading = wanted if interval is None else [*wanted, *([] if TIME_COLUMN in wanted else [TIME_COLUMN])]
        time_index = file.schema_arrow.get_field_index(TIME_COLUMN)
        for group in range(file.num_row_groups):
            if interval is not None and not _may_overlap(file, group, time_index, interval):
                continue
            table = _read_group(file, group, reading, path)
            if interval is not None:
                start = pa.scalar(interval.start_ms, pa.int64()).cast(TIME_TYPE)
                end = pa.scalar(interval.end_ms, pa.int64()).cast(TIME_TYPE)
                times = table.column(TIME_COLUMN)
                table = table.filter(pc.and_(pc.greater_equal(times, start), pc.less(times, end)))
            yield from table.select(wanted).combine_chunks().to_batches()


def verify_file(path: Path) -> FooterProof:
    """Reads every byte and every row: counts, time bounds, interval and sort granules must be as the footer says.

    The checksum is for the caller to compare with the published one; a file cannot hold its own.

    Raises:
        SegmentNotFound: no such file.
        SegmentCorrupt: names the first claim that does not hold.
    """
    with _open(path) as file:
        footer = SegmentFooter.from_metadata(file.metadata.metadata, path)
        if not file.schema_arrow.equals(footer.schema.to_arrow()):
            raise SegmentCorrupt(f"{path} has other columns than its footer names: {file.schema_arrow.names}")
        granularity, rows, last = footer.schema.sort_granularity, 0, None
        bounds: list[int] = []
        for group in range(file.num_row_groups):
            table = _read_group(file, group, footer.schema.to_arrow().names, path)
            times = table.column(TIME_COLUMN).cast(pa.int64()).to_numpy()
            granules = truncate_ms(granularity, times)
            if np.any(np.diff(granules) < 0) or (last is not None and granules[0] < last):
                raise SegmentCorrupt(f"{path} is not sorted by {granularity} in row group {group}")
            last = int(granules[-1])
            bounds += [int(times.min()), int(times.max())]
            rows += table.num_rows
    found = (rows, min(bounds, default=0), max(bounds, default=0))
    if found != (footer.rows, footer.min_time_ms, footer.max_time_ms):
        claimed = (footer.rows, footer.min_time_ms, footer.max_time_ms)
        raise SegmentCorrupt(f"{path} holds (rows, first ms, last ms) {found}, but its footer says {claimed}")
    if bounds and not (footer.meta.id.interval.contains(found[1]) and footer.meta.id.interval.contains(found[2])):
        raise SegmentCorrupt(f"{path} holds times outside of its segment's interval {footer.meta.id.interval}")
    with path.open("rb") as raw:
        checksum = hashlib.file_digest(raw, "sha256").hexdigest()
        return FooterProof(footer, checksum, raw.tell())


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise SegmentNotFound(f"no file at {path}") from error
    except (pa.ArrowException, OSError) as error:
        raise SegmentCorrupt(f"{path} is not a whole Parquet file: {error}") from error


def _read_group(file: pq.ParquetFile, group: int, columns: Sequence[str], path: Path) -> pa.Table:
    try:
        return file.read_row_group(group, columns=list(columns), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise SegmentCorrupt(f"{path} cannot be read in row group {group}: {error}") from error


def _may_overlap(file: pq.ParquetFile, group: int, time_index: int, interval: Interval) -> bool:
    statistics = file.metadata.row_group(group).column(time_index).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    low, high = (pa.scalar(bound, TIME_TYPE).cast(pa.int64()).as_py() for bound in (statistics.min, statistics.max))
    return interval.overlaps(Interval(low, high + 1))
