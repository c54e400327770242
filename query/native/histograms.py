"""Histograms as aggregators: of given breaks, and the only value of rows that must be one."""

from __future__ import annotations

import struct

from query.errors import InvalidQuery
from query.native import expressions
from query.native.request import Part
from query.native.rows import Rows
from query.sql import term as t
from query.sql.casts import as_number, cast_to
from query.sql.functions_json import JSON
from query.sql.term import Term
from query.sql.types import DOUBLE, Family, SqlType


def number_of(rows: Rows, part: Part) -> Term:
    """What an aggregator counts, as a double.

    Raises:
        InvalidQuery: it holds several values or none that is a number.
    """
    name = part.text_or("", "expression")
    found = expressions.compiled(rows, name) if name else rows.column(part.text("fieldName"))
    if found.type.multi or found.family in (Family.ARRAY, Family.COMPLEX):
        raise InvalidQuery(f"{part.path}: {part.type} of a column of {found.type.druid} is not possible")
    return cast_to(as_number(found), DOUBLE)


def of_breaks(rows: Rows, part: Part, suffix: str) -> tuple[str, SqlType]:
    """How many values lie between each two breaks, the lower one excluded, and the least and largest of all.

    Raises:
        InvalidQuery: fewer than two breaks, or breaks that do not grow.
    """
    given = part.items("breaks", "breaksList")
    if len(given) < 2 or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in given):
        raise InvalidQuery(f"{part.at('breaks')}: two numbers or more are needed")
    # Druid holds breaks as floats of 32 bits.
    breaks = [float(struct.unpack("f", struct.pack("f", one))[0]) for one in given]
    if any(one >= other for one, other in zip(breaks, breaks[1:], strict=False)):
        raise InvalidQuery(f"{part.at('breaks')}: each must be larger than the one before it")
    number = number_of(rows, part).sql
    counts = [
        f"CAST({_count(f'{number} > {low!r} AND {number} <= {high!r}', suffix)} AS DOUBLE)"
        for low, high in zip(breaks, breaks[1:], strict=False)
    ]
    ends = [
        f"coalesce(to_json({name}({number}){suffix}), to_json({t.text_sql(nothing)}))"
        for name, nothing in (("min", "Infinity"), ("max", "-Infinity"))
    ]
    members = f"'breaks', [{_listed(breaks)}], 'counts', [{', '.join(counts)}], 'quantiles', [{', '.join(ends)}]"
    return f"CAST(json_object({members}) AS VARCHAR)", JSON


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"CAST({one!r} AS DOUBLE)" for one in numbers)


def _count(test: str, suffix: str) -> str:
    return f"count(CASE WHEN {test} THEN 1 END){suffix}"


def only_value(rows: Rows, part: Part, suffix: str) -> tuple[str, SqlType]:
    """The value of the only row; the query fails where there are more."""
    type_ = expressions.named_type(part.text("columnType"))
    value = cast_to(rows.column(part.text("fieldName")), type_)
    more = t.text_sql(f"{part.path}: singleValue of more than one row")
    sql = f"CASE WHEN count(*){suffix} > 1 THEN error({more}) ELSE any_value({value.sql}){suffix} END"
    return f"CAST({sql} AS {type_.duckdb})", type_
