"""Rows are written as Druid writes them, exactly, and as a stream."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from query.model import PlannedQuery, ResultColumn, ResultFormat, SqlRequest
from query.results import java_number, render
from query.sql.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, MULTI_VARCHAR, TIMESTAMP, VARCHAR, SqlType, array_of


def written(format_: ResultFormat, columns: dict[str, tuple[SqlType, Any]], zone: str = "UTC", **options: Any) -> str:
    stringify = options.pop("stringify", True)
    described = tuple(ResultColumn(name, kind.druid, kind.name, kind) for name, (kind, _) in columns.items())
    planned = PlannedQuery((), "", described, None, zone, 0, stringify)
    batch = pa.RecordBatch.from_arrays(
        [array for _, array in columns.values()], names=[str(n) for n in range(len(columns))]
    )
    request = SqlRequest("", result_format=format_, **options)
    return b"".join(render([batch], planned, request)).decode()


def cells(kind: SqlType, array: pa.Array[Any], **options: Any) -> list[Any]:
    body = json.loads(written(ResultFormat.ARRAY, {"x": (kind, array)}, **options))
    return [row[0] for row in body]


def test_longs_beyond_64_bits_are_integer_literals() -> None:
    big = 3 * (2**63 - 1)
    array = pa.array([Decimal(big), Decimal(-1), None], pa.decimal128(38, 0))
    assert written(ResultFormat.ARRAY, {"x": (BIGINT, array)}) == f"[[{big}],[-1],[null]]\n"


def test_numbers_that_json_lacks_are_texts() -> None:
    array = pa.array([math.nan, math.inf, -math.inf, None, 0.1])
    assert cells(DOUBLE, array) == ["NaN", "Infinity", "-Infinity", None, 0.1]
    assert written(ResultFormat.CSV, {"x": (DOUBLE, array)}) == "NaN\nInfinity\n-Infinity\n\n0.1\n\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (0.1, "0.1"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (1e16, "1.0E16"),
        (0.001, "0.001"),
        (1.5e-7, "1.5E-7"),
        (-2.5e300, "-2.5E300"),
        (5e-324, "5.0E-324"),
    ],
)
def test_doubles_are_spelled_as_java_does(value: float, text: str) -> None:
    assert java_number(value) == text
    assert float(text) == value


def test_floats_show_their_own_shortest_digits() -> None:
    assert written(ResultFormat.ARRAY, {"x": (FLOAT, pa.array([0.1, 2.25], pa.float32()))}) == "[[0.1],[2.25]]\n"


def test_times_are_iso_texts_in_the_zone_of_the_session() -> None:
    array = pa.array([0, 1_709_210_096_789, -62_135_596_800_000, None])
    assert cells(TIMESTAMP, array)[:3] == [
        "1970-01-01T00:00:00.000Z",
        "2024-02-29T12:34:56.789Z",
        "0001-01-01T00:00:00.000Z",
    ]
    zoned = cells(TIMESTAMP, array, zone="America/Los_Angeles")
    assert zoned[:2] == ["1969-12-31T16:00:00.000-08:00", "2024-02-29T04:34:56.789-08:00"]
    assert cells(TIMESTAMP, pa.array([0]), zone="Africa/Abidjan") == ["1970-01-01T00:00:00.000Z"]


def test_booleans_and_texts() -> None:
    assert cells(BOOLEAN, pa.array([True, False, None])) == [True, False, None]
    texts = ["", 'say "hi"', "a\nb", "ü東", "\x00\x1f", "\u2028", None]
    assert cells(VARCHAR, pa.array(texts)) == texts


def test_a_multi_value_string_of_one_is_that_one_and_of_none_is_null() -> None:
    array = pa.array([["a"], ["a", "b"], [], None, [None]])
    assert cells(MULTI_VARCHAR, array) == ["a", '["a","b"]', None, None, None]
    assert cells(MULTI_VARCHAR, array, stringify=False) == ["a", ["a", "b"], None, None, None]


def test_arrays_are_json_texts_unless_asked_otherwise() -> None:
    array = pa.array([[1, None], [], None])
    assert cells(array_of(BIGINT), array) == ["[1,null]", "[]", None]
    assert cells(array_of(BIGINT), array, stringify=False) == [[1, None], [], None]
    assert cells(array_of(DOUBLE), pa.array([[1.5, math.nan]])) == ['[1.5,"NaN"]']


def test_csv_quotes_only_what_needs_it() -> None:
    array = pa.array(["plain", "a,b", 'say "hi"', "two\nlines", "", None])
    expected = 'plain\n"a,b"\n"say ""hi"""\n"two\nlines"\n\n\n\n'
    assert written(ResultFormat.CSV, {"x": (VARCHAR, array)}) == expected


@pytest.mark.parametrize(
    ("format_", "header", "body"),
    [
        (ResultFormat.OBJECT, False, "[]\n"),
        (ResultFormat.OBJECT, True, '[{"x":null}]\n'),
        (ResultFormat.ARRAY, False, "[]\n"),
        (ResultFormat.ARRAY, True, '[["x"]]\n'),
        (ResultFormat.OBJECT_LINES, False, "\n\n"),
        (ResultFormat.OBJECT_LINES, True, '{"x":null}\n\n'),
        (ResultFormat.ARRAY_LINES, False, "\n\n"),
        (ResultFormat.ARRAY_LINES, True, '["x"]\n\n'),
        (ResultFormat.CSV, False, "\n"),
        (ResultFormat.CSV, True, "x\n\n"),
    ],
)
def test_an_answer_without_rows_still_has_its_frame(format_: ResultFormat, header: bool, body: str) -> None:
    assert written(format_, {"x": (VARCHAR, pa.array([], pa.string()))}, header=header) == body


def test_header_rows_name_columns_and_types() -> None:
    columns: dict[str, tuple[SqlType, Any]] = {"x": (BIGINT, pa.array([1])), "y": (VARCHAR, pa.array(["a"]))}
    options: dict[str, Any] = {"header": True, "types_header": True, "sql_types_header": True}
    assert json.loads(written(ResultFormat.ARRAY, columns, **options)) == [
        ["x", "y"],
        ["LONG", "STRING"],
        ["BIGINT", "VARCHAR"],
        [1, "a"],
    ]
    assert json.loads(written(ResultFormat.OBJECT, columns, **options))[0] == {
        "x": {"type": "LONG", "sqlType": "BIGINT"},
        "y": {"type": "STRING", "sqlType": "VARCHAR"},
    }


def test_rows_are_taken_one_batch_at_a_time() -> None:
    taken = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            taken.append(number)
            yield pa.RecordBatch.from_arrays([pa.array([number] * 8_192)], names=["0"])

    column = ResultColumn("x", "LONG", "BIGINT", BIGINT)
    stream = render(batches(), PlannedQuery((), "", (column,), None, "UTC", 0, True), SqlRequest(""))
    first = next(stream)
    assert taken == [0], "nothing is written before the first batch is there, and no more is read than written"
    rows = json.loads(first + b"".join(stream))
    assert [row["x"] for row in rows] == [0] * 8_192 + [1] * 8_192 + [2] * 8_192


def test_wide_rows_are_written_in_pieces_of_which_a_server_can_hold_many() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["é" * 1_000] * 4_096)], names=["0"])
    column = ResultColumn("x", "STRING", "VARCHAR", VARCHAR)
    pieces = list(render([batch], PlannedQuery((), "", (column,), None, "UTC", 0, True), SqlRequest("")))
    assert max(map(len, pieces)) < 2 << 20 and json.loads(b"".join(pieces)) == [{"x": "é" * 1_000}] * 4_096


def test_a_small_answer_is_one_piece() -> None:
    batches = [pa.RecordBatch.from_arrays([pa.array([number])], names=["0"]) for number in range(3)]
    column = ResultColumn("x", "LONG", "BIGINT", BIGINT)
    planned = PlannedQuery((), "", (column,), None, "UTC", 0, True)
    assert list(render(batches, planned, SqlRequest(""))) == [b'[{"x":0},{"x":1},{"x":2}]\n']


def test_an_error_before_the_first_row_comes_before_the_first_byte() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        raise RuntimeError("no")
        yield

    column = ResultColumn("x", "LONG", "BIGINT", BIGINT)
    stream = render(broken(), PlannedQuery((), "", (column,), None, "UTC", 0, True), SqlRequest(""))
    with pytest.raises(RuntimeError):
        next(stream)
