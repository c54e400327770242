"""What a file's statistics say is never told as an answer: the smallest and largest values come from its rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from query.binding import FileGroup, bind_table
from query.engine import Engine
from query.model import PlannedQuery, SqlRequest
from query.native.plan import SegmentFact
from query.native.planner import plan as plan_native
from query.sql.catalogue import ColumnDef, MemoryCatalogue, TableDef
from query.sql.planner import plan
from query.sql.types import DOUBLE, TIMESTAMP, VARCHAR
from query.worker_wire import root_path
from segments.schema import ColumnSpec, ColumnType, SegmentSchema

LONG_TEXT = "a" * 40


class Unsegmented(MemoryCatalogue):
    """Tables of which only the columns are known."""

    def time_range(self, name: str) -> tuple[int, int] | None:
        return None

    def segments(self, name: str) -> list[SegmentFact]:
        return []


KNOWN = Unsegmented([TableDef("t", (ColumnDef("__time", TIMESTAMP), ColumnDef("d", DOUBLE), ColumnDef("s", VARCHAR)))])
NATIVE = {
    "queryType": "groupBy",
    "dataSource": "t",
    "granularity": "all",
    "intervals": "0/3000",
    "dimensions": [],
    "aggregations": [{"type": f"double{kind}", "name": kind, "fieldName": "d"} for kind in ("Min", "Max")],
}


def cells(engine: Engine, planned: PlannedQuery, table: FileGroup) -> list[object]:
    relations = [bind_table(use, [table], []) for use in planned.tables]
    [batch] = engine.run(planned.duckdb_sql, relations).batches()
    [row] = batch.to_pylist()
    return list(row.values())


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("SELECT MIN(d), MAX(d), COUNT(*) FROM t", [-2.5, 1.5, 3]),
        ("SELECT MAX(x), MAX(s) FROM (SELECT d AS x, s FROM t)", [1.5, LONG_TEXT + "c"]),
        ("SELECT MAX(DISTINCT d), MIN(COALESCE(d, NULL)) FROM t", [1.5, -2.5]),
    ],
)
def test_the_extremes_of_one_file_are_values_of_its_rows(
    engine: Engine, base: Path, statement: str, found: list[object]
) -> None:
    # Of a single file, unfiltered, the engine would tell what its statistics allow; NaN may be missing from them.
    columns = {"d": pa.array([1.5, -2.5, None]), "s": pa.array([LONG_TEXT + "b", LONG_TEXT + "c", None])}
    times = pa.array([0, 1, 2], pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"__time": times, **columns}), base / "cache" / "extremes.parquet")
    schema = SegmentSchema.of((ColumnSpec("d", ColumnType.DOUBLE), ColumnSpec("s", ColumnType.STRING)))
    table = FileGroup(schema, (f"{root_path(0)}/extremes.parquet",))
    assert cells(engine, plan(SqlRequest(statement, {}), KNOWN, 0), table) == found
    assert {-2.5, 1.5} <= set(cells(engine, plan_native(NATIVE, KNOWN, 0).planned, table))
