"""Bloom filters: byte for byte those of Java (recorded from hive-storage-api 2.7.0), by SQL and by native queries."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from query.errors import InvalidQuery
from query.kernels.bloom import KERNELS, holds, made_of, read_filter
from tests.conformance.engine import answered_rows
from tests.conformance.native import answered
from tests.unit.query.rows import ask, one, table

MIXED = (
    "BAAAABAAAAAAAAAEAAAAAAAAQAAAAAABAAAIIEAAAIAAAAAAAAAQQAAAAAAAgAAAAAIEAEAEAQBAAAAAAAAAAAAAAAAAAAAAAAAE"
    "AAAAAAAAAAAAAAAAAAhAAAAAAAAAAAAAIAAAgAAAAAAAAgAAACAAAABAAAAAAAAAAAAAAAAAAAAAAA=="
)
"""For 100 values: a, größer als 8 bytes, null, 7, -3 and 1.5."""
TIME = "2000/3000"


def marks(kind: str, *values: Any) -> list[int]:
    types = {"texts": pa.string(), "longs": pa.int64(), "doubles": pa.float64(), "floats": pa.float32()}
    found: list[int] = KERNELS[f"bloom_marks_of_{kind}"].function(pa.array(values, types[kind])).to_pylist()
    return found


def test_marks_are_the_hashes_of_java() -> None:
    assert marks("texts", "", "a", "12345678", "größer als 8 bytes", None) == [
        8404154273843829576, -2460741455279943289, -1431689528261165993, 7009277329113069778, 2862933555777941757,
    ]  # fmt: skip
    assert marks("longs", 0, 7, -3, 2**63 - 1, None)[:4] == [
        -8620514229188030809, -6031185637880077061, 8810919829697330696, 8510850762534098677,
    ]  # fmt: skip
    assert marks("doubles", 0.0, 1.5, -2e300, float("nan")) == [
        -8620514229188030809, -5392922991934425094, 7882919741847772969, -661033217910334973,
    ]  # fmt: skip


def test_a_filter_has_the_bytes_of_java() -> None:
    mixed = [*marks("texts", "a", "größer als 8 bytes", None), *marks("longs", 7, -3), *marks("doubles", 1.5)]
    assert base64.b64encode(made_of(100, np.array(mixed))).decode() == MIXED
    of_float = "BAAAAAgAAAAIAAAAAAAAAAAAAAAAAAAABAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    assert base64.b64encode(made_of(10, np.array(marks("floats", 2.5)))).decode() == of_float
    assert len(made_of(1_000_000, np.array([1]))) == 5 + 6_235_648 // 8


def test_a_filter_holds_what_it_was_made_of_and_little_else() -> None:
    rng = random.Random(1)
    inside = marks("longs", *(rng.randrange(2**40) for _ in range(1_000)))
    filter_ = made_of(1_000, np.array(inside))
    assert holds(filter_, np.array(inside)).all()
    outside = marks("longs", *(-rng.randrange(1, 2**40) for _ in range(4_000)))
    assert holds(filter_, np.array(outside)).mean() < 0.12


def test_the_filter_of_a_column_finds_its_values_and_nulls() -> None:
    rows = table(s=["a", "b", None], n=[1, 2, None], d=[0.5, None, 1.5], mv=[["x", "y"], [], ["z"]])
    for column, inside, outside in (("s", "s", "'q'"), ("n", "n", "77"), ("d", "d", "9e9"), ("mv", "mv", "'q'")):
        told = ask(f"SELECT BLOOM_FILTER({column}, 100) FROM t", rows)[0][0]
        filter_ = json.loads(told)
        assert read_filter(filter_) is not None
        test = f"SELECT COUNT(*) FROM t WHERE BLOOM_FILTER_TEST({inside}, '{filter_}')"
        assert ask(test, rows) == [[3]], column
        assert one(f"BLOOM_FILTER_TEST({outside}, '{filter_}')") is False
    assert one(f"BLOOM_FILTER_TEST('a', '{MIXED}')") is True
    assert one(f"BLOOM_FILTER_TEST(7, '{MIXED}')") is True


def test_a_native_query_makes_and_asks_the_same_filter_as_sql() -> None:
    aggregator = {"type": "bloom", "name": "f", "field": "country", "maxNumEntries": 50}
    whole = {"queryType": "timeseries", "dataSource": "events", "intervals": TIME, "granularity": "all"}
    [bucket] = answered(**whole, aggregations=[aggregator])
    native = bucket["result"]["f"]
    [[sql]] = answered_rows("SELECT BLOOM_FILTER(country, 50) FROM events")
    assert json.loads(sql) == native
    [[jp]] = answered_rows("SELECT BLOOM_FILTER(country, 50) FILTER (WHERE country = 'JP') FROM events")
    [[count]] = answered_rows("SELECT COUNT(*) FROM events WHERE country = 'JP'")
    counted = [{"type": "count", "name": "n"}]
    filter_ = {"type": "bloom", "dimension": "country", "bloomKFilter": json.loads(jp)}
    assert answered(**whole, aggregations=counted, filter=filter_)[0]["result"]["n"] == count
    called = {"type": "expression", "expression": f"bloom_filter_test(country, '{json.loads(jp)}')"}
    assert answered(**whole, aggregations=counted, filter=called)[0]["result"]["n"] == count
    lower = {"type": "lower"}
    made = [
        {"type": "bloom", "name": "f", "field": {"type": "extraction", "dimension": "country", "extractionFn": lower}}
    ]
    small = answered(**whole, aggregations=made)[0]["result"]["f"]
    asked = filter_ | {"bloomKFilter": small, "extractionFn": lower}
    assert answered(**whole, aggregations=counted, filter=asked)[0]["result"]["n"] == 200


@pytest.mark.parametrize("text", ["", "x", "BAAA", base64.b64encode(bytes(69)).decode()])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuery, match="Bloom filter in base64"):
        one(f"BLOOM_FILTER_TEST('a', '{text}')")


def test_a_filter_is_for_a_sensible_number_of_values() -> None:
    for size in ("0", "-1", "1000000000"):
        with pytest.raises(InvalidQuery, match="a filter is for"):
            ask(f"SELECT BLOOM_FILTER(n, {size}) FROM t")
