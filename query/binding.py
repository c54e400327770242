"""Decides how one relation of a statement is put together from segment files and live chunks (pure text).

Columns are bound by the schema that is recorded with each file, by exact name, with explicit casts: never by
the order of files, never by what the engine guesses from names, folders or the first file (lessons of
docs/decisions/0012-binding-columns.md).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from query.model import ColumnUse, TableUse
from query.nested import from_nested
from query.sql.java_text import java_text
from query.sql.types import Family
from segments.schema import TIME_COLUMN, ColumnSpec, ColumnType, SegmentSchema


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Parquet files that were written under one schema; ``paths`` are as the engine may open them."""

    schema: SegmentSchema
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """Arrow IPC files of one Arrow schema; ``columns`` in the order of that schema."""

    columns: tuple[ColumnSpec, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArrowInput:
    """A table that the worker maps from IPC files: ``columns`` by position become k0, k1, ..."""

    name: str
    paths: tuple[str, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowInput:
    """A table that travels with the job: an Arrow IPC stream in base64, with the statement's names of columns."""

    name: str
    stream: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the worker provides: the lookup whose pairs lie at ``path``, or (empty) a kernel by its name."""

    name: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """What a worker needs to offer one relation: inputs to register, then ``sql`` as a view's body."""

    name: str
    sql: str
    arrow: tuple[ArrowInput, ...] = ()
    rows: tuple[RowInput, ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """Rows of which a statement asks no more than that they are there, with the time of one of them in ms UTC."""

    rows: int = 0
    time_ms: int = 0


NONE_COUNTED = Counted()


def bind_table(
    use: TableUse, files: Sequence[FileGroup], chunks: Sequence[ChunkGroup], counted: Counted = NONE_COUNTED
) -> Relation:
    """The relation over published files and live chunks; empty, with the right types, when there are none.

    ``counted`` are rows beside them that nobody needs to read.
    """
    stored = [arm for group in files for arm in _file_arms(use, group)]
    arms, arrow = [], []
    for index, group in enumerate(chunks):
        source = ArrowInput(f"{use.relation}_live{index}", group.paths, _positions(use, group.columns))
        arrow.append(source)
        arms.append(_chunk_arm(use, group, source))
    # Live rows are the newest.
    arms = [*arms, *stored] if use.newest_first else [*stored, *arms]
    if counted.rows:
        arms.append(_counted_arm(use, counted))
    if not arms:
        arms.append(f"SELECT {_nulls(use)} WHERE false")
    return Relation(use.relation, " UNION ALL ".join(arms), tuple(arrow))


def _nulls(use: TableUse) -> str:
    nulls = [f"CAST(NULL AS {column.duckdb_type}) AS {quote(column.internal)}" for column in use.columns]
    return ", ".join(nulls) or "1 AS present"


def _counted_arm(use: TableUse, counted: Counted) -> str:
    """As many rows as are known: with a time that stands for all of theirs where one is asked for."""
    moment = f"epoch_ms({counted.time_ms}::BIGINT)"
    cells = [
        f"{moment if column.name == TIME_COLUMN else 'NULL'}::{column.duckdb_type} AS {quote(column.internal)}"
        for column in use.columns
    ]
    return f"SELECT {', '.join(cells) or '1 AS present'} FROM range({counted.rows})"


def bind_rows(use: TableUse, stream: bytes) -> Relation:
    """The relation over rows that are at hand: an Arrow IPC stream with the use's internal column names."""
    source = RowInput(f"{use.relation}_rows", base64.b64encode(stream).decode())
    names = ", ".join(quote(column.internal) for column in use.columns) or "1 AS present"
    return Relation(use.relation, f"SELECT {names} FROM {quote(source.name)}", rows=(source,))


def bind_lookup(use: TableUse, path: str) -> Relation:
    """The relation over the pairs of a lookup: an Arrow IPC file of the columns k and v."""
    source = ArrowInput(f"{use.relation}_pairs", (path,), (0, 1))
    names = [f"CAST(k{'kv'.index(column.name)} AS VARCHAR) AS {quote(column.internal)}" for column in use.columns]
    return Relation(use.relation, f"SELECT {', '.join(names)} FROM {quote(source.name)}", (source,))


def quote(name: str) -> str:
    """An identifier, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text literal."""
    return "'" + text.replace("'", "''") + "'"


def _file_arms(use: TableUse, group: FileGroup) -> list[str]:
    names = [column.name for column in group.schema.columns]
    if len({name.lower() for name in names}) == len(names):
        return [_file_arm(use, group.schema, group.paths, [quote(name) for name in names], "")]
    # The engine folds case: names that differ by case only are told apart by position, file by file.
    aliases = [f"p{index}" for index in range(len(names))]
    return [_file_arm(use, group.schema, (path,), aliases, f" AS f({', '.join(aliases)})") for path in group.paths]


def _file_arm(use: TableUse, schema: SegmentSchema, paths: Sequence[str], references: Sequence[str], alias: str) -> str:
    by_name = {column.name: (column, ref) for column, ref in zip(schema.columns, references, strict=True)}
    selected = []
    for column in use.columns:
        # Where nothing is looked at nothing is read: below a UNION the engine would read the column all the same.
        stored, reference = (None, "") if use.counts_only else by_name.get(column.name, (None, ""))
        selected.append(f"{cast_stored(reference, stored, column)} AS {quote(column.internal)}")
    listed = ", ".join(literal(path) for path in paths)
    options = "hive_partitioning = false, union_by_name = false, filename = false"
    return f"SELECT {', '.join(selected) or '1 AS present'} FROM read_parquet([{listed}], {options}){alias}"


def _positions(use: TableUse, columns: Sequence[ColumnSpec]) -> tuple[int, ...]:
    at = {column.name: index for index, column in enumerate(columns)}
    needed = sorted({at[column.name] for column in use.columns if column.name in at})
    # A table without columns has no rows to count: the first column stands for them.
    return tuple(needed) or (0,)


def _chunk_arm(use: TableUse, group: ChunkGroup, source: ArrowInput) -> str:
    by_name = {group.columns[at].name: (group.columns[at], f"k{place}") for place, at in enumerate(source.columns)}
    selected = []
    for column in use.columns:
        stored, reference = by_name.get(column.name, (None, ""))
        selected.append(f"{cast_stored(reference, stored, column)} AS {quote(column.internal)}")
    return f"SELECT {', '.join(selected) or '1 AS present'} FROM {quote(source.name)}"


def cast_stored(reference: str, stored: ColumnSpec | None, column: ColumnUse) -> str:
    """The expression that turns a stored column into what the statement was planned for.

    A value that the type cannot hold becomes null, as in Druid; a double is cut towards zero. Where
    nothing needs to change the bare reference is returned, so that filters still reach the file.
    """
    target = column.duckdb_type
    if stored is None or stored.untyped:
        return f"CAST(NULL AS {target})"
    if stored.is_sketch and target != "BLOB":
        # As Druid shows a sketch; no number is one.
        return f"to_base64({reference})" if target == "VARCHAR" else f"CAST(NULL AS {target})"
    if column.type.family is Family.COMPLEX:
        return reference if stored.type is ColumnType.COMPLEX else _json_of(reference, stored)
    if stored.is_json:
        return from_nested(reference, target)
    if column.type.family is Family.ARRAY:
        return _array_of(reference, stored, target.removesuffix("[]"))
    if stored.type.element is not None:
        # Only a column whose declared type was changed from an array gets here.
        text = f"list_transform({reference}, lambda e: {_scalar('e', stored.type.element, 'VARCHAR')})"
        return text if target == "VARCHAR[]" else _from_text(f"list_extract({text}, 1)", target)
    if target == "VARCHAR[]":
        text = _scalar(reference, stored.type, "VARCHAR")
        return reference if stored.is_list else f"CASE WHEN {reference} IS NULL THEN NULL ELSE [{text}] END"
    if stored.is_list:
        # Lists of one and empty ones of a text that is nowhere multi-value, or a column that was a text once.
        return _from_text(f"list_extract({reference}, 1)", target)
    if stored.kind == "time":
        return reference if target.startswith("TIMESTAMP") else f"CAST(epoch_ms({reference}) AS {target})"
    return _scalar(reference, stored.type, target)


def _array_of(reference: str, stored: ColumnSpec, element: str) -> str:
    """The array of a stored array, or of a single value."""
    if stored.type.element is None and not stored.is_list:
        return f"CASE WHEN {reference} IS NULL THEN NULL ELSE [{_scalar(reference, stored.type, element)}] END"
    inner = stored.type.element or ColumnType.STRING
    cast = _scalar("e", inner, element)
    return reference if cast == "e" else f"list_transform({reference}, lambda e: {cast})"


def _json_of(reference: str, stored: ColumnSpec) -> str:
    """A scalar or array as the JSON text that it becomes where the column is nested data."""
    told = f"CAST(to_json({reference}) AS VARCHAR)"
    if not stored.is_list:
        return told
    # As Druid tells a row of a text: one value is itself, none is null.
    single = f"CAST(to_json({reference}[1]) AS VARCHAR)"
    return f"CASE len({reference}) WHEN 0 THEN NULL WHEN 1 THEN {single} ELSE {told} END"


def _scalar(reference: str, stored: ColumnType, target: str) -> str:
    if stored in (ColumnType.STRING, ColumnType.COMPLEX):
        return _from_text(reference, target)
    same = {ColumnType.LONG: "BIGINT", ColumnType.FLOAT: "FLOAT", ColumnType.DOUBLE: "DOUBLE"}[stored]
    if same == target:
        return reference
    if target == "BIGINT":
        return f"TRY_CAST(trunc({reference}) AS BIGINT)"
    if target == "VARCHAR" and stored is not ColumnType.LONG:
        return java_text(reference)
    return f"TRY_CAST({reference} AS {target})"


def _from_text(reference: str, target: str) -> str:
    if target in ("VARCHAR", "BLOB"):
        return reference
    if target == "BIGINT":
        whole = f"regexp_full_match({reference}, '[+-]?[0-9]+')"
        return f"CASE WHEN {whole} THEN TRY_CAST({reference} AS BIGINT) END"
    return f"TRY_CAST({reference} AS {target})"
