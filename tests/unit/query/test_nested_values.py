"""A json column without anything nested is told as what its values are: in statements, live and published, mixed."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.spec import parse_supervisor_spec
from query.binding import cast_stored
from query.columns import table_def
from query.model import ColumnUse, ResultFormat, SqlRequest
from query.sql.catalogue import MemoryCatalogue, TableDef
from query.sql.types import SqlType
from segments.parquet.reader import read_footer
from segments.schema import JSON, ColumnSpec, ColumnType, SegmentSchema
from tests.conformance import engine
from tests.conformance.test_ingested_rows import bound, chunks_of
from tests.unit.ingest.appenderator.rows import poll_of
from tests.unit.ingest.appenderator.test_appenderator import held, merged

POSTED: dict[str, Any] = {
    "type": "kafka",
    "spec": {
        "dataSchema": {
            "dataSource": "mixed", "timestampSpec": {"column": "t", "format": "iso"},
            "dimensionsSpec": {"dimensions": [{"type": "json", "name": "v"}]},
            "granularitySpec": {"rollup": False, "queryGranularity": "none", "segmentGranularity": "day"},
        },
        "ioConfig": {
            "type": "kafka", "topic": "t", "inputFormat": {"type": "json"}, "useEarliestOffset": True,
            "consumerProperties": {"bootstrap.servers": "none"},
        },
    },
}  # fmt: skip


def rows_of(folder: Path, values: list[Any]) -> Any:
    rows = held(folder, parse_supervisor_spec(POSTED)[0])
    objects = [{"t": f"2024-01-01T00:00:{at:02}Z", "v": value} for at, value in enumerate(values)]
    for first in range(0, len(objects), 2):
        rows.append(1, [poll_of(objects[first : first + 2], first)])
    return rows


def selected(folder: Path, published: list[Any], live: list[Any], what: str) -> tuple[str, list[Any]]:
    """The native type and the values of one expression over the rows in their order."""
    (folder / "p").mkdir()
    files = [file.path for file in merged(rows_of(folder / "p", published)).files] if published else []
    (folder / "l").mkdir()
    chunks = chunks_of(rows_of(folder / "l", live), folder / "l") if live else []
    table, arrow = bound(POSTED, files, chunks)
    request = SqlRequest(
        f"SELECT {what} AS x FROM mixed ORDER BY __time", {"sqlStringifyArrays": False},
        result_format=ResultFormat.ARRAY, header=True, types_header=True,
    )  # fmt: skip
    _, types, *body = json.loads(engine.answer(request, MemoryCatalogue([table]), lambda name: arrow))
    return types[0], [row[0] for row in body]


CASES = [
    # values, how they are told, what v is
    (["12", 12, 12.0, None, "", 1e20, True], "STRING", ["12", "12", "12.0", None, "", "1.0E20", "true"]),
    ([1, 2, None, True], "LONG", [1, 2, None, 1]),
    ([1, 2.5, 1e300], "DOUBLE", [1.0, 2.5, 1e300]),
    ([[1], 2, [None, 3], []], "ARRAY<LONG>", [[1], [2], [None, 3], []]),
    ([["a"], 1.5, 'b"c'], "ARRAY<STRING>", [["a"], ["1.5"], ['b"c']]),
    ([{"a": 1}, 2, "x"], "COMPLEX<json>", ['{"a":1}', "2", '"x"']),
    ([[[1]], 2], "COMPLEX<json>", ["[[1]]", "2"]),
    ([None, None], "COMPLEX<json>", [None, None]),
]


@pytest.mark.parametrize("state", ["live", "published"])
@pytest.mark.parametrize("values, told, shown", CASES, ids=[case[1] + str(at) for at, case in enumerate(CASES)])
def test_values_that_are_not_nested_tell_the_type(
    state: str, values: list[Any], told: str, shown: list[Any], tmp_path: Path
) -> None:
    here = values if state == "published" else []
    assert selected(tmp_path, here, [] if here else values, "v") == (told, shown)


MIXED = [
    # published, live (later in time only by rows' own order), told
    (["a"], [5], "STRING"),
    ([1], [[2.5]], "ARRAY<DOUBLE>"),
    ([None], [7], "LONG"),
    (["a"], [{"b": 1}], "COMPLEX<json>"),
]


@pytest.mark.parametrize("published, live, told", MIXED)
def test_rows_of_several_kinds_have_the_type_that_holds_them_all(
    published: list[Any], live: list[Any], told: str, tmp_path: Path
) -> None:
    assert selected(tmp_path, published, live, "v")[0] == told


def test_paths_read_columns_that_are_told_as_scalars(tmp_path: Path) -> None:
    asked: list[tuple[list[Any], str, list[Any]]] = [
        (["x", None], "$", ["x", None]), ([5, 6], "$", ["5", "6"]), ([5, 6], "$.a", [None, None]),
        ([[1, 2]], "$[1]", ["2"]), (['{"a":1}'], "$.a", [None]),
    ]  # fmt: skip
    for at, (values, path, answer) in enumerate(asked):
        (tmp_path / str(at)).mkdir()
        assert selected(tmp_path / str(at), values, [], f"JSON_VALUE(v, '{path}')")[1] == answer


def test_a_segment_of_before_keeps_its_column_nested(tmp_path: Path) -> None:
    file = merged(rows_of(tmp_path, ["a", "b"])).files[0]
    schema = read_footer(file.path).schema
    document: dict[str, Any] = schema.to_json()
    told = [dict(column) for column in document["columns"]]
    assert told[1].pop("values") == "STRING"
    older = SegmentSchema.from_json(document | {"columns": told})
    declared = SegmentSchema.of([ColumnSpec("v", ColumnType.COMPLEX, complex_type="json")])
    types = partial(_type_of, declared)
    assert types([older]) == types([older, schema]) == types([]) == "COMPLEX<json>"
    assert types([schema]) == "STRING"


def _type_of(declared: SegmentSchema, stored: list[SegmentSchema]) -> str:
    table: TableDef = table_def("t", declared, stored, [])
    return next(column.type.druid for column in table.columns if column.name == "v")


@pytest.mark.parametrize("several", [True, False])
def test_a_text_becomes_the_json_of_its_value_or_values(several: bool) -> None:
    use = ColumnUse("t", "t", SqlType("OTHER", element=JSON), "VARCHAR")
    lists = cast_stored("t", ColumnSpec("t", ColumnType.STRING, multi_value=several, empty_lists=not several), use)
    found = duckdb.execute(f"SELECT {lists} FROM (VALUES (['x']), ([]), (['x', NULL]), ([NULL]), (NULL)) AS v(t)")
    assert [told for (told,) in found.fetchall()] == ['"x"', None, '["x",null]', None, None]
    assert cast_stored("t", ColumnSpec("t", ColumnType.STRING), use) == "CAST(to_json(t) AS VARCHAR)"
