"""Decides the one schema that chunks of different schemas share: columns in order of appearance, types only wider."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from ingest.appenderator.decoding.columns import as_lists
from segments.coercion import java_double
from segments.schema import ColumnSpec, ColumnType, SegmentSchema

_WIDTH: Final = {ColumnType.LONG: 0, ColumnType.FLOAT: 1, ColumnType.DOUBLE: 2, ColumnType.STRING: 3}
_ARROW: Final = {
    ColumnType.LONG: pa.int64(),
    ColumnType.FLOAT: pa.float32(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.STRING: pa.string(),
}


def widest(schemas: Iterable[SegmentSchema]) -> SegmentSchema:
    """The schema that holds the rows of all of them (at least one); dimensions before metrics."""
    first, *others = list(dict.fromkeys(schemas))
    if not others:
        return first
    columns: dict[str, ColumnSpec] = {}
    for schema in (first, *others):
        for column in schema.columns:
            known = columns.get(column.name)
            columns[column.name] = column if known is None else _wider(known, column)
    ordered = sorted(columns.values(), key=lambda column: ("time", "dimension", "metric").index(column.kind))
    return SegmentSchema.of(ordered, first.query_granularity, first.rollup)


def _wider(one: ColumnSpec, other: ColumnSpec) -> ColumnSpec:
    if one.is_sketch or other.is_sketch:
        return one
    wider = one if _WIDTH[one.type] >= _WIDTH[other.type] else other
    several = (one.multi_value or other.multi_value) and wider.type is ColumnType.STRING
    return replace(wider, multi_value=several)


def fits(schema: SegmentSchema, target: SegmentSchema) -> bool:
    """Whether rows of ``schema`` have the target's types already (columns may be absent, texts may be lists)."""
    return all(
        column.kind == "time" or (wanted := target.column(column.name)) is None or wanted.type is column.type
        for column in schema.columns
    )


def conformed(rows: pa.Table, target: SegmentSchema) -> pa.Table:
    """The rows with every column of a narrower type turned into the target's: single texts into lists where
    the target has several, whole numbers into their digits, other numbers into Java's spelling."""
    for at, name in enumerate(rows.schema.names):
        wanted = target.column(name)
        column = rows.column(at)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if wanted is None or wanted.kind == "time" or wanted.is_sketch or pa.types.is_list(kind):
            continue
        if wanted.multi_value:
            texts = conformed(rows.select([name]), target.with_multi_value(())).column(0)
            rows = rows.set_column(at, name, as_lists(texts.combine_chunks().cast(pa.string())))
        elif kind == _ARROW[wanted.type]:
            continue
        elif pa.types.is_floating(kind) and wanted.type is ColumnType.STRING:
            spelt = [None if value is None else java_double(value) for value in column.to_pylist()]
            rows = rows.set_column(at, name, pa.array(spelt, pa.string()))
        else:
            rows = rows.set_column(at, name, column.cast(_ARROW[wanted.type]))
    return rows


def without_dictionaries(rows: pa.Table) -> pa.Table:
    """The rows with plain texts: tables of which only some are encoded cannot be put together."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            plain = rows.column(at).cast(field.type.value_type)
            rows = rows.set_column(at, field.with_type(field.type.value_type), plain)
    return rows
