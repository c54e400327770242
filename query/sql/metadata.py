"""Defines the tables of INFORMATION_SCHEMA and sys with Druid's columns, and fills those that a statement reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from query.errors import UnknownName
from query.model import TableUse
from query.sql.catalogue import LOOKUP_COLUMNS, Catalogue, ColumnDef, TableDef
from query.sql.frame import AGGREGATES, ARITIES, FUNCTIONS, MANY
from query.sql.routines import SIGNATURES
from query.sql.types import BIGINT, VARCHAR, Family, SqlType
from query.sql.windows import WINDOW_ARITIES, WINDOW_NAMES

Row = Mapping[str, object]
_JDBC_TYPES = {"BIGINT": -5, "DOUBLE": 8, "FLOAT": 6, "VARCHAR": 12, "TIMESTAMP": 93, "ARRAY": 2003, "OTHER": 1111}
_ARROW = {Family.STRING: pa.string(), Family.LONG: pa.int64()}


class SystemTables(Protocol):
    """Who knows the cluster: fills the ``sys`` schema; safe from any thread."""

    def rows(self, table: str) -> Iterable[Row]:
        """The rows of ``segments``, ``tasks``, ``supervisors``, ``servers`` and the like, by column name.

        Columns left out are null; flags are 0 or 1; times are ISO texts.
        """
        ...


class NoSystemTables:
    """Every ``sys`` table is empty."""

    def rows(self, table: str) -> Iterable[Row]:
        """Nothing."""
        return ()


def _columns(text: str, longs: str = "") -> tuple[ColumnDef, ...]:
    numbers = set(longs.split())
    return tuple(ColumnDef(name, BIGINT if name in numbers else VARCHAR) for name in text.split())


INFORMATION_SCHEMA = {
    "SCHEMATA": _columns(
        "CATALOG_NAME SCHEMA_NAME SCHEMA_OWNER DEFAULT_CHARACTER_SET_CATALOG DEFAULT_CHARACTER_SET_SCHEMA "
        "DEFAULT_CHARACTER_SET_NAME SQL_PATH"
    ),
    "TABLES": _columns("TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE IS_JOINABLE IS_BROADCAST"),
    "COLUMNS": _columns(
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION COLUMN_DEFAULT IS_NULLABLE DATA_TYPE "
        "CHARACTER_MAXIMUM_LENGTH CHARACTER_OCTET_LENGTH NUMERIC_PRECISION NUMERIC_PRECISION_RADIX NUMERIC_SCALE "
        "DATETIME_PRECISION CHARACTER_SET_NAME COLLATION_NAME JDBC_TYPE",
        "ORDINAL_POSITION CHARACTER_MAXIMUM_LENGTH CHARACTER_OCTET_LENGTH NUMERIC_PRECISION NUMERIC_PRECISION_RADIX "
        "NUMERIC_SCALE DATETIME_PRECISION JDBC_TYPE",
    ),
    "ROUTINES": _columns("ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE IS_AGGREGATOR SIGNATURES"),
}
SYS = {
    "segments": _columns(
        "segment_id datasource start end size version partition_num num_replicas num_rows is_active is_published "
        "is_available is_realtime is_overshadowed shard_spec dimensions metrics projections "
        "last_compaction_state replication_factor",
        "size partition_num num_replicas num_rows is_active is_published is_available is_realtime is_overshadowed "
        "replication_factor",
    ),
    "servers": _columns(
        "server host plaintext_port tls_port server_type tier curr_size max_size storage_size is_leader start_time "
        "version build_revision labels available_processors total_memory",
        "plaintext_port tls_port curr_size max_size storage_size is_leader available_processors total_memory",
    ),
    "server_segments": _columns("server segment_id"),
    "server_properties": _columns("server service_name node_roles property value"),
    "tasks": _columns(
        "task_id group_id type datasource created_time queue_insertion_time status runner_status duration location "
        "host plaintext_port tls_port error_msg",
        "duration plaintext_port tls_port",
    ),
    "supervisors": _columns(
        "supervisor_id datasource state detailed_state healthy type source suspended spec", "healthy suspended"
    ),
    "queries": _columns("id engine state info"),
    # Ours: a row for each published file of records that could not be read.
    "quarantine": _columns(
        "datasource supervisor_id sequence num_rows size created_time path state replayed_by", "num_rows size"
    ),
}
_SCHEMAS = {"INFORMATION_SCHEMA": INFORMATION_SCHEMA, "sys": SYS}


def columns_of(schema: str, table: str, where: dict[str, str]) -> tuple[ColumnDef, ...]:
    """The columns of a metadata table.

    Raises:
        UnknownName: no such schema or table.
    """
    tables = _SCHEMAS.get(schema)
    if tables is None:
        raise UnknownName("Schema", schema, ("druid", "lookup", *_SCHEMAS), where)
    if table not in tables:
        raise UnknownName("Table", f"{schema}.{table}", (f"{schema}.{name}" for name in tables), where)
    return tables[table]


def inline_rows(use: TableUse, catalogue: Catalogue, system: SystemTables) -> pa.Table:
    """The rows of a metadata table as the planned statement wants them: its columns, by their internal names."""
    rows = system.rows(use.datasource) if use.schema == "sys" else _information(use.datasource, catalogue)
    cells: list[list[object]] = [[] for _ in use.columns]
    for row in rows:
        for column, values in zip(use.columns, cells, strict=True):
            values.append(_cell(row.get(column.name), column.type))
    arrays = [pa.array(values, _ARROW[column.type.family]) for column, values in zip(use.columns, cells, strict=True)]
    return pa.table(dict(zip((column.internal for column in use.columns), arrays, strict=True)))


def _cell(value: object, type_: SqlType) -> Any:
    if value is None:
        return None
    return int(str(int(value))) if type_ == BIGINT and isinstance(value, int | bool) else value


def _information(table: str, catalogue: Catalogue) -> Iterator[Row]:
    if table == "SCHEMATA":
        for schema in ("INFORMATION_SCHEMA", "druid", "lookup", "sys", "view"):
            yield {"CATALOG_NAME": "druid", "SCHEMA_NAME": schema}
    elif table == "ROUTINES":
        yield from _routines()
    else:
        for schema, defined in _all_tables(catalogue):
            place = {"TABLE_CATALOG": "druid", "TABLE_SCHEMA": schema, "TABLE_NAME": defined.name}
            if table == "TABLES":
                kind = "TABLE" if schema in ("druid", "lookup") else "SYSTEM_TABLE"
                is_lookup = "YES" if schema == "lookup" else "NO"
                yield place | {"TABLE_TYPE": kind, "IS_JOINABLE": is_lookup, "IS_BROADCAST": is_lookup}
            else:
                for at, column in enumerate(defined.columns, 1):
                    yield place | _column_row(at, column)


def _all_tables(catalogue: Catalogue) -> Iterator[tuple[str, TableDef]]:
    for name in sorted(catalogue.table_names()):
        found = catalogue.table(name)
        if found is not None:
            yield "druid", found
    for name in sorted(catalogue.lookup_names()):
        yield "lookup", TableDef(name, LOOKUP_COLUMNS)
    for schema, tables in _SCHEMAS.items():
        for name, columns in tables.items():
            yield schema, TableDef(name, columns)


def _column_row(position: int, column: ColumnDef) -> dict[str, object]:
    kind = column.type
    row: dict[str, object] = {
        "COLUMN_NAME": column.name,
        "ORDINAL_POSITION": position,
        "COLUMN_DEFAULT": "",
        "IS_NULLABLE": "NO" if column.name == "__time" else "YES",
        "DATA_TYPE": kind.data_type,
        "JDBC_TYPE": _JDBC_TYPES[kind.name],
    }
    if kind.family in (Family.LONG, Family.DOUBLE):
        digits = 19 if kind.family is Family.LONG else 15
        row |= {"NUMERIC_PRECISION": digits, "NUMERIC_PRECISION_RADIX": 10, "NUMERIC_SCALE": 0}
    if kind.family is Family.TIME:
        row["DATETIME_PRECISION"] = 3
    if kind.family is Family.STRING:
        row |= {"CHARACTER_SET_NAME": "UTF-16LE", "COLLATION_NAME": "UTF-16LE$en_US$primary"}
    return row


def _routines() -> Iterator[Row]:
    for name in sorted({*FUNCTIONS, *SIGNATURES, *WINDOW_NAMES}):
        yield {
            "ROUTINE_CATALOG": "druid",
            "ROUTINE_SCHEMA": "INFORMATION_SCHEMA",
            "ROUTINE_NAME": name,
            "ROUTINE_TYPE": "FUNCTION",
            "IS_AGGREGATOR": "YES" if name in AGGREGATES or name in WINDOW_NAMES else "NO",
            "SIGNATURES": _signature(name),
        }


def _signature(name: str) -> str:
    """How it is called, as Druid tells it; of what that Druid has not, in the same quotes: what may be left out in
    brackets."""
    if name in SIGNATURES:
        return SIGNATURES[name]
    least, most = ARITIES[name] if name in ARITIES else WINDOW_ARITIES[name]
    given = ["expr"] * least
    given += ["[expr, ...]"] if most >= MANY else ["[expr]"] * (most - least)
    return f"'{name}({', '.join(given)})'"
