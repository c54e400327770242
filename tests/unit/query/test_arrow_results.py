"""Rows as an Arrow IPC stream have the types a program expects, whatever the engine handed over."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from query.arrow_results import arrow_pieces
from query.errors import QueryTimeout, ResourceLimitExceeded
from query.model import PlannedQuery, ResultColumn
from query.sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, MULTI_VARCHAR, NULL, TIMESTAMP, VARCHAR, array_of

BEYOND = 3 * (2**63 - 1)


def planned(zone: str = "UTC", **kinds: Any) -> PlannedQuery:
    columns = tuple(ResultColumn(name, kind.druid, kind.name, kind) for name, kind in kinds.items())
    return PlannedQuery((), "", columns, None, zone, 0, True)


def batch(*arrays: pa.Array[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(arrays), names=[f"o{at}" for at in range(len(arrays))])


def wide(*values: int | None) -> pa.Array[Any]:
    return pa.array([None if value is None else Decimal(value) for value in values], pa.decimal128(38, 0))


def read(pieces: Iterator[bytes]) -> pa.Table:
    return pa.ipc.open_stream(b"".join(pieces)).read_all()


def test_every_kind_of_column_has_a_type_of_its_own() -> None:
    kinds: dict[str, Any] = {
        "t": TIMESTAMP, "day": DATE, "s": VARCHAR, "n": BIGINT, "d": DOUBLE, "f": FLOAT, "b": BOOLEAN,
        "mv": MULTI_VARCHAR, "list": array_of(BIGINT), "nothing": NULL,
    }  # fmt: skip
    hour = 3_600_000
    row = batch(
        pa.array([5 * hour, None]), pa.array([86_400_000 + hour, None]), pa.array(["é", None]), wide(7, None),
        pa.array([0.5, None]), pa.array([0.25, None], pa.float32()), pa.array([True, None]),
        pa.array([["a", "b"], None]), pa.array([[1, None], None]), pa.nulls(2, pa.int32()),
    )  # fmt: skip
    table = read(arrow_pieces([row], planned(**kinds)))
    assert [str(field.type) for field in table.schema] == [
        "timestamp[ms, tz=UTC]", "date32[day]", "string", "int64", "double", "float", "bool", "list<item: string>",
        "list<item: int64>", "string",
    ]  # fmt: skip
    first, second = table.to_pylist()
    assert first["day"] == datetime.date(1970, 1, 2) and first["t"].hour == 5 and first["n"] == 7
    assert first["mv"] == ["a", "b"] and first["list"] == [1, None] and set(second.values()) == {None}
    assert table.schema.field("n").metadata == {b"druid.type": b"LONG", b"sql.type": b"BIGINT"}


def test_days_are_those_of_the_querys_zone() -> None:
    evening_before = batch(pa.array([3_600_000]), pa.array([3_600_000]))
    table = read(arrow_pieces([evening_before], planned("America/Los_Angeles", t=TIMESTAMP, day=DATE)))
    assert table.column("day").to_pylist() == [datetime.date(1969, 12, 31)]
    assert str(table.schema.field("t").type) == "timestamp[ms, tz=America/Los_Angeles]"


def test_a_sum_beyond_64_bits_makes_its_column_decimal_and_a_later_one_ends_the_stream() -> None:
    table = read(arrow_pieces([batch(wide(1, BEYOND))], planned(n=BIGINT)))
    assert table.column("n").to_pylist() == [Decimal(1), Decimal(BEYOND)]
    pieces = arrow_pieces([batch(wide(1)), batch(wide(BEYOND))], planned(n=BIGINT))
    next(pieces)
    with pytest.raises(ResourceLimitExceeded, match="column n: a sum needs more than 64 bits"):
        next(pieces)


def test_no_rows_are_a_stream_with_a_schema() -> None:
    table = read(arrow_pieces([], planned(n=BIGINT, s=VARCHAR)))
    assert table.num_rows == 0 and table.schema.names == ["n", "s"]


def test_an_error_before_the_first_batch_comes_before_any_byte_and_a_later_one_leaves_no_end() -> None:
    def failing(after: int) -> Iterator[pa.RecordBatch]:
        yield from [batch(pa.array([1]))] * after
        raise QueryTimeout("too long")

    with pytest.raises(QueryTimeout):
        next(arrow_pieces(failing(0), planned(n=BIGINT)))
    sent = []
    with pytest.raises(QueryTimeout):
        for piece in arrow_pieces(failing(2), planned(n=BIGINT)):
            sent.append(piece)
    assert len(sent) == 2 and not b"".join(sent).endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00")
