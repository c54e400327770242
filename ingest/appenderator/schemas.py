"""Decides the one schema that chunks of different schemas share: columns in order of appearance, types only wider."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from ingest.appenderator.decoding.auto import build
from ingest.appenderator.decoding.columns import as_lists
from segments.arrow_arrays import ArrowArray
from segments.arrow_schema import arrow_type, column_of_field, tagged
from segments.coercion import java_double
from segments.schema import ColumnSpec, ColumnType, SegmentSchema, wider


def widest(schemas: Iterable[SegmentSchema]) -> SegmentSchema:
    """The schema that holds the rows of all of them (at least one); dimensions before metrics."""
    first, *others = list(dict.fromkeys(schemas))
    if not others:
        return first
    columns: dict[str, ColumnSpec] = {}
    for schema in (first, *others):
        for column in schema.columns:
            known = columns.get(column.name)
            columns[column.name] = column if known is None else wider(known, column)
    ordered = sorted(columns.values(), key=lambda column: ("time", "dimension", "metric").index(column.kind))
    return SegmentSchema.of(ordered, first.query_granularity, first.rollup)


def fits(schema: SegmentSchema, target: SegmentSchema) -> bool:
    """Whether rows of ``schema`` have the target's types already (columns may be absent, texts may be lists)."""
    for column in schema.columns:
        wanted = target.column(column.name)
        if wanted is not None and column.kind != "time" and wanted.type_signature != column.type_signature:
            return False
    return True


def conformed(rows: pa.Table, target: SegmentSchema) -> pa.Table:
    """The rows (tagged, see ``segments.arrow_schema``) with every column of a narrower type turned into the target's:
    single texts into lists where the target has several, whole numbers into their digits, other numbers into
    Java's spelling, scalars into arrays of one, everything into JSON."""
    for at, field in enumerate(rows.schema):
        wanted = target.column(field.name)
        if wanted is None or wanted.kind == "time" or wanted.is_sketch:
            continue
        stored = column_of_field(field)
        if stored.type_signature == wanted.type_signature and stored.is_list == wanted.is_list:
            continue
        if stored.is_list and wanted.type is ColumnType.STRING:
            # A merge takes lists of one for what they are.
            continue
        rows = rows.set_column(at, field.name, _converted(rows.column(at).combine_chunks(), stored, wanted))
    return tagged(rows, target)


def _converted(column: ArrowArray, stored: ColumnSpec, wanted: ColumnSpec) -> ArrowArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if wanted.is_json or wanted.type.element is not None:
        listed = column.to_pylist()
        if stored.is_json:
            return column
        return build(listed, wanted)
    if pa.types.is_floating(column.type) and wanted.type is ColumnType.STRING:
        column = pa.array([None if value is None else java_double(value) for value in column.to_pylist()], pa.string())
    elif not stored.is_list:
        column = column.cast(arrow_type(replace(wanted, multi_value=False, empty_lists=False)), safe=False)
    return as_lists(column) if wanted.is_list else column


def without_dictionaries(rows: pa.Table) -> pa.Table:
    """The rows with plain texts: tables of which only some are encoded cannot be put together."""
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            plain = rows.column(at).cast(field.type.value_type)
            rows = rows.set_column(at, field.with_type(field.type.value_type), plain)
    return rows
