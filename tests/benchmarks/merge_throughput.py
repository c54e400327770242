"""Measures the merge of spills into one segment: rows per CPU second, peak memory, bytes per row.

Run by ``make bench``, or alone: ``python -m tests.benchmarks.merge_throughput --rows 5000000``. Rows are ad
events (three dimensions of 100 to 100,000 values, a metric) over one hour, 1 % of them late, in spills of
100,000 rows, as a task writes them.
"""

import argparse
import json
import os
import resource
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from segments.identity import DataSource, SegmentId
from segments.interval import Granularity, Interval
from segments.parquet.footer import SegmentFileMeta
from segments.parquet.merge import merge_spills
from segments.parquet.spill import write_spill
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import ColumnSpec, ColumnType, SegmentSchema

HOUR = Interval.parse("2026-01-01T00/PT1H")
SPILL_ROWS = 100_000
AGGREGATIONS = [RollupAggregation("count", MergeFunction.SUM), RollupAggregation("price", MergeFunction.SUM)]


@dataclass(frozen=True)
class Figures:
    """What one merge cost; memory in MB, anonymous memory without what is mapped from files."""

    case: str
    rows_in: int
    rows_out: int
    rows_per_cpu_second: int
    bytes_per_row: float
    peak_rss_mb: int
    peak_anonymous_mb: int
    rss_before_mb: int


def schema_of(granularity: Granularity, rollup: bool) -> SegmentSchema:
    columns = [
        ColumnSpec("event_type", ColumnType.STRING),
        ColumnSpec("ad_id", ColumnType.STRING),
        ColumnSpec("page_id", ColumnType.STRING),
        ColumnSpec("user_id", ColumnType.STRING),
        ColumnSpec("count", ColumnType.LONG, kind="metric"),
        ColumnSpec("price", ColumnType.DOUBLE, kind="metric"),
    ]
    return SegmentSchema.of(
        [c for c in columns if not (rollup and c.name in ("page_id", "user_id"))], granularity, rollup
    )


def write_spills(folder: Path, rows: int, schema: SegmentSchema) -> list[Path]:
    generator = np.random.default_rng(7)
    distinct = {"event_type": 3, "ad_id": 1_000, "page_id": 100, "user_id": 100_000}
    texts = {name: np.array([f"{name}-{n:032x}" for n in range(size)]) for name, size in distinct.items()}
    paths = []
    for number, begin in enumerate(range(0, rows, SPILL_ROWS)):
        count = min(SPILL_ROWS, rows - begin)
        times = HOUR.start_ms + (begin + np.arange(count)) * HOUR.width_ms // rows
        late = generator.random(count) < 0.01
        times[late] = HOUR.start_ms + generator.integers(0, HOUR.width_ms, late.sum())
        columns: dict[str, object] = {"__time": schema.query_granularity.truncate_array(pa.array(times))}
        for name, size in distinct.items():
            if schema.column(name) is not None:
                columns[name] = texts[name][generator.integers(0, size, count)]
        columns["count"] = np.ones(count, dtype=np.int64)
        columns["price"] = generator.random(count).round(2)
        paths.append(folder / f"{number}.spill")
        write_spill(pa.table(columns), paths[-1])
    return paths


class PeakMemory:
    """Samples this process's memory every few milliseconds on a thread of its own."""

    def __init__(self) -> None:
        self.rss_mb = self.anonymous_mb = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._stop.wait(0.005):
            _, resident, shared, *_ = map(int, Path("/proc/self/statm").read_text().split())
            self.rss_mb = max(self.rss_mb, resident * page >> 20)
            self.anonymous_mb = max(self.anonymous_mb, (resident - shared) * page >> 20)


def measure(case: str, sources: list[Path], schema: SegmentSchema, out: Path) -> Figures:
    meta = SegmentFileMeta(SegmentId(DataSource("ads"), HOUR, "v"), ((0, 0, 1),), "ads_1_0", 1, 0)
    before_mb = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    used = resource.getrusage(resource.RUSAGE_SELF)
    with PeakMemory() as peak:
        result = merge_spills(sources, out, schema, AGGREGATIONS if schema.rollup else None, meta)
    now = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    rows_in = len(sources) * SPILL_ROWS
    return Figures(
        case=case,
        rows_in=rows_in,
        rows_out=result.rows,
        rows_per_cpu_second=int(rows_in / cpu_seconds),
        bytes_per_row=round(result.size_bytes / result.rows, 1),
        peak_rss_mb=peak.rss_mb,
        peak_anonymous_mb=peak.anonymous_mb,
        rss_before_mb=before_mb,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--granularity", default="NONE")
    parser.add_argument("--rollup", action="store_true")
    arguments = parser.parse_args()
    schema = schema_of(Granularity.of(arguments.granularity), arguments.rollup)
    with tempfile.TemporaryDirectory() as folder:
        # Spills are made by another process, so that its memory does not count here.
        child = os.fork()
        if child == 0:
            write_spills(Path(folder), arguments.rows, schema)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        sources = sorted(Path(folder).glob("*.spill"), key=lambda path: int(path.stem))
        case = f"{'rollup' if arguments.rollup else 'plain'} {arguments.granularity}"
        print(json.dumps(asdict(measure(case, sources, schema, Path(folder) / "out.parquet"))))


if __name__ == "__main__":
    main()
