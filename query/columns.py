"""Decides which columns a table has, and of which type, from its spec, its segments and its live chunks (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from query.sql.catalogue import ColumnDef, TableDef
from query.sql.types import BIGINT, DOUBLE, FLOAT, TIMESTAMP, VARCHAR, SqlType, array_of
from segments.rollup import TIME_OF_PREFIX
from segments.schema import TIME_COLUMN, ColumnSpec, ColumnType, SegmentSchema, wider

_SQL = {ColumnType.STRING: VARCHAR, ColumnType.LONG: BIGINT, ColumnType.FLOAT: FLOAT, ColumnType.DOUBLE: DOUBLE}


def table_def(
    name: str, declared: SegmentSchema, stored: Iterable[SegmentSchema], live: Iterable[Iterable[ColumnSpec]]
) -> TableDef:
    """The table as statements see it: the time first, then declared columns in their order, then found ones.

    A declared type holds; what nobody declared has the type that holds the values of all who store it. A text
    column is multi-value when it is so anywhere. Nested data of which no value is nested is told as what its
    values are, as in Druid, whoever declared it.
    """
    declared_types = {column.name: column for column in declared.columns}
    found: dict[str, ColumnSpec] = dict(declared_types)
    several: set[str] = set()
    nested: dict[str, ColumnSpec] = {}
    for columns in (*(schema.columns for schema in stored), *live):
        for column in columns:
            if column.name.startswith(TIME_OF_PREFIX):
                # Beside a first or last metric in a spill; not a column of the table.
                continue
            if column.multi_value:
                several.add(column.name)
            if (declared_type := declared_types.get(column.name)) is not None and declared_type.is_json:
                nested[column.name] = wider(nested.get(column.name, column), column)
            if column.name not in found:
                found[column.name] = column
            elif column.name not in declared_types:
                found[column.name] = wider(found[column.name], column)
    found |= {name: column for name, column in nested.items() if column.is_json}
    several |= {column.name for column in declared.columns if column.multi_value}
    names = [TIME_COLUMN, *(column for column in found if column != TIME_COLUMN)]
    return TableDef(name, tuple(ColumnDef(at, _sql_type(found.get(at), at in several)) for at in names))


def _sql_type(column: ColumnSpec | None, is_multi: bool) -> SqlType:
    if column is None or column.name == TIME_COLUMN:
        return TIMESTAMP
    if column.untyped:
        return VARCHAR
    column = column.told
    if column.type is ColumnType.COMPLEX:
        return SqlType("OTHER", element=column.complex_type)
    if column.type.element is not None:
        return array_of(_SQL[column.type.element])
    if column.type is ColumnType.STRING and is_multi:
        return SqlType("VARCHAR", multi=True)
    return _SQL[column.type]
