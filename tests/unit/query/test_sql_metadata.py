"""INFORMATION_SCHEMA and sys are tables like any other: filtered, grouped and joined."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from query.errors import UnknownName
from query.model import ResultFormat, SqlRequest
from query.sql.frame import FUNCTIONS
from query.sql.metadata import SYS
from query.sql.windows import WINDOW_NAMES
from tests.conformance.engine import answer
from tests.unit.query.rows import catalogue, planned, table

SEGMENTS = [
    {"segment_id": "a", "datasource": "t", "start": "2024-01-01T00:00:00.000Z", "num_rows": 5, "is_active": 1},
    {"segment_id": "b", "datasource": "t", "start": "2024-01-02T00:00:00.000Z", "num_rows": 7, "is_active": True},
    {"segment_id": "c", "datasource": "u", "start": "2024-01-02T00:00:00.000Z", "num_rows": 9, "is_active": 0},
]
TASKS = [{"task_id": "t1", "datasource": "t", "status": "RUNNING", "duration": -1}]


class Cluster:
    """Two ``sys`` tables with rows."""

    def rows(self, name: str) -> Iterable[Mapping[str, object]]:
        return {"segments": SEGMENTS, "tasks": TASKS}.get(name, [])


def told(query: str) -> list[list[Any]]:
    request = SqlRequest(query, result_format=ResultFormat.ARRAY)
    body: list[list[Any]] = json.loads(answer(request, catalogue("t", "u"), lambda name: table(), Cluster()))
    return body


def test_segments_are_summed_by_table() -> None:
    query = "SELECT datasource, SUM(num_rows) FROM sys.segments WHERE is_active = 1 GROUP BY 1"
    assert told(query) == [["t", 12]]


def test_sys_tables_join_each_other_and_what_is_left_out_is_null() -> None:
    query = (
        'SELECT s.segment_id, k.task_id, s."end" FROM sys.segments s LEFT JOIN sys.tasks k '
        "ON s.datasource = k.datasource ORDER BY 1"
    )
    assert told(query) == [["a", "t1", None], ["b", "t1", None], ["c", None, None]]


def test_columns_are_told_with_their_types() -> None:
    query = (
        "SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE, JDBC_TYPE FROM INFORMATION_SCHEMA.COLUMNS "
        "WHERE TABLE_SCHEMA = 'druid' AND TABLE_NAME = 't' ORDER BY ORDINAL_POSITION"
    )
    assert told(query) == [
        ["__time", "TIMESTAMP", "NO", 93],
        ["s", "VARCHAR", "YES", 12],
        ["S", "VARCHAR", "YES", 12],
        ["mv", "VARCHAR", "YES", 12],
        ["n", "BIGINT", "YES", -5],
        ["d", "DOUBLE", "YES", 8],
    ]


def test_stored_and_system_tables_are_listed() -> None:
    query = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = '{}' ORDER BY 1"
    assert told(query.format("druid")) == [["t"], ["u"]]
    assert told(query.format("sys")) == [[name] for name in sorted(SYS)]


def test_every_function_is_a_routine() -> None:
    query = "SELECT IS_AGGREGATOR, COUNT(*) > 10 FROM INFORMATION_SCHEMA.ROUTINES GROUP BY 1 ORDER BY 1"
    assert told(query) == [["NO", True], ["YES", True]]
    asked = (
        "SELECT SIGNATURES FROM INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_NAME IN ('LPAD', 'CONCAT', 'RANK', 'CAST')"
    )
    assert told(asked + " ORDER BY ROUTINE_NAME") == [
        ["'CAST(expr AS type)'"],
        ["'CONCAT(<EQUIVALENT_TYPE>, <EQUIVALENT_TYPE>, <...>)'"],
        ["'LPAD(<CHARACTER>, <INTEGER>, [<CHARACTER>])'"],
        ["'RANK()'"],
    ]
    assert told("SELECT COUNT(*) FROM INFORMATION_SCHEMA.ROUTINES WHERE SIGNATURES IS NULL") == [[0]]


@pytest.mark.parametrize("name", ["sys.segment", "INFORMATION_SCHEMA.tables", "information_schema.TABLES", "lookup.x"])
def test_schemas_and_their_tables_are_named_exactly(name: str) -> None:
    with pytest.raises(UnknownName):
        planned(f"SELECT * FROM {name}")


def test_a_plan_says_which_columns_of_which_table_it_reads() -> None:
    (use,) = planned("SELECT s FROM t WHERE n > 1 AND mv = 'x'").tables
    assert (use.datasource, use.is_stored) == ("t", True)
    assert {column.name for column in use.columns} == {"s", "n", "mv"}
    types = {column.name: column.duckdb_type for column in planned("SELECT * FROM t").tables[0].columns}
    assert types == {
        "__time": "TIMESTAMP WITH TIME ZONE",
        "s": "VARCHAR",
        "S": "VARCHAR",
        "mv": "VARCHAR[]",
        "n": "BIGINT",
        "d": "DOUBLE",
    }
    assert not planned("SELECT 1").tables
    assert len(planned("SELECT COUNT(*) FROM t").tables[0].columns) == 1


def test_the_page_about_sql_tells_every_function() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
    absent = [name for name in (*FUNCTIONS, *WINDOW_NAMES) if f"`{name}`" not in page]
    assert not absent, f"docs/reference/sql.md does not tell {absent}"
