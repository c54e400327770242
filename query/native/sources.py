"""Data sources: the rows a native query reads, from tables, unions, inline rows, joins and other queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from query.errors import InvalidQuery, QueryError, UnknownName
from query.native import expressions
from query.native.dimensions import virtual_column
from query.native.expressions import NAMED_TYPES
from query.native.filters import filter_sql
from query.native.intervals import ETERNITY, Interval
from query.native.request import Part, part_of
from query.native.rows import Rows, constant, rows_of_query
from query.sql import term as t
from query.sql.casts import cast_to
from query.sql.catalogue import LOOKUP_COLUMNS
from query.sql.frame import Session
from query.sql.multi_value import spread
from query.sql.scope import OpenTable, Output, Source
from query.sql.types import BIGINT, MULTI_VARCHAR, TIMESTAMP, VARCHAR, Family, SqlType, common_type, element_of

Subquery = Callable[[Session, Part], tuple[str, tuple[Output, ...]]]
"""Plans a query inside another: its SQL and the columns it gives, by internal name."""

INLINE_ROWS = 10_000
"""More rows than this are data to ingest, not part of a query."""
DEEPEST = 20
"""Data sources inside each other."""
_JOINS = {"INNER": "JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL JOIN"}


def rows_of(
    session: Session,
    given: Any,
    path: str,
    subquery: Subquery,
    intervals: tuple[Interval, ...] = (ETERNITY,),
    depth: int = 0,
) -> Rows:
    """The rows of a data source; a table that does not exist has none, as in Druid.

    ``intervals`` bound the left side of a join that keeps all rows of its right; others their reader bounds.

    Raises:
        QueryError: it is of a type that is unknown or not built.
    """
    if depth > DEEPEST:
        raise InvalidQuery(f"{path}: data sources are nested deeper than {DEEPEST}")
    if isinstance(given, str):
        return _table(session, given)
    if isinstance(given, list):
        return _union(session, [_name(item, path) for item in given])
    part = part_of(given, path)
    kind = part.type
    if kind == "query":
        return rows_of_query(session, *subquery(session, part.part("query")))
    if kind in _PLAIN:
        return _PLAIN[kind](session, part)

    def inner(name: str) -> Rows:
        return rows_of(session, part.get(name), part.at(name), subquery, intervals, depth + 1)

    if kind == "join":
        return _join(part, inner("left"), inner("right"), intervals)
    if kind == "filter":
        return _filtered(inner("base"), part.part("filter"))
    if kind == "unnest":
        return _unnested(part, inner("base"))
    raise _refusal(part)


def _refusal(part: Part) -> QueryError:
    return part.unsupported("the data source") if part.type == "restrict" else part.unknown_type("data source")


def _name(item: Any, path: str) -> str:
    if isinstance(item, dict) and item.get("type") == "table":
        item = item.get("name")
    if not isinstance(item, str):
        raise InvalidQuery(f"{path}: a union is of tables by their names")
    return item


def _opened(session: Session, name: str) -> tuple[OpenTable, Source] | None:
    found = session.catalogue.table(name)
    if found is None:
        return None
    outputs = tuple(Output(column.name, f"c{at}", column.type) for at, column in enumerate(found.columns))
    table = OpenTable("druid", name, session.fresh("t"), outputs)
    session.tables.append(table)
    return table, Source(name, session.fresh("a"), outputs, table)


def _lookup(session: Session, part: Part) -> Rows:
    """The pairs of a lookup, as columns k and v."""
    name = part.text("lookup")
    if not session.catalogue.has_lookup(name):
        raise UnknownName("Lookup", name, session.catalogue.lookup_names())
    outputs = tuple(Output(column.name, f"c{at}", column.type) for at, column in enumerate(LOOKUP_COLUMNS))
    table = OpenTable("lookup", name, session.fresh("t"), outputs)
    session.tables.append(table)
    source = Source(name, session.fresh("a"), outputs, table)
    return Rows(session, f"{table.relation} AS {source.internal}", [("", source)])


def _table(session: Session, name: str) -> Rows:
    opened = _opened(session, name)
    if opened is None:
        internal = session.fresh("a")
        return Rows(session, f"(SELECT 1 AS present WHERE FALSE) AS {internal}", [("", Source(name, internal, ()))])
    table, source = opened
    return Rows(session, f"{table.relation} AS {source.internal}", [("", source)], tables=[table])


def _union(session: Session, names: list[str]) -> Rows:
    """Rows of several tables, matched by column name; a column that a table lacks is null there."""
    opened = [found for name in names if (found := _opened(session, name)) is not None]
    if not opened:
        return _table(session, names[0] if names else "")
    types: dict[str, SqlType] = {}
    for column in (column for _, source in opened for column in source.columns):
        types[column.name] = common_type(types.get(column.name, column.type), column.type) or VARCHAR
    outputs = tuple(Output(name, f"o{at}", type_) for at, (name, type_) in enumerate(types.items()))
    selects = []
    for table, source in opened:
        cells = [(output, source.find(output.name)) for output in outputs]
        parts = [
            f"{(cast_to(source.term(found), output.type) if found else t.null(output.type)).sql} AS {output.internal}"
            for output, found in cells
        ]
        selects.append(f"SELECT {', '.join(parts)} FROM {table.relation} AS {source.internal}")
    plain = tuple(Output(one.name, one.internal, BIGINT if one.type == TIMESTAMP else one.type) for one in outputs)
    rows = rows_of_query(session, " UNION ALL ".join(selects), plain)
    rows.tables = [table for table, _ in opened]
    return rows


def _inline(session: Session, part: Part) -> Rows:
    names, given = part.texts("columnNames"), part.items("rows")
    spelled = part.items("columnTypes") or [None] * len(names)
    if len(spelled) != len(names) or not names:
        raise InvalidQuery(f"{part.path}: columnNames and columnTypes must be as many, at least one")
    if len(given) > INLINE_ROWS:
        raise InvalidQuery(f"{part.at('rows')}: {len(given)} rows are too many for a query, at most {INLINE_ROWS}")
    if not all(isinstance(row, list) and len(row) == len(names) for row in given):
        raise InvalidQuery(f"{part.at('rows')}: every row is a list of {len(names)} values")
    types = [_inline_type(name, [row[at] for row in given]) for at, name in enumerate(spelled)]
    outputs = tuple(Output(name, f"o{at}", type_) for at, (name, type_) in enumerate(zip(names, types, strict=True)))
    listed = ", ".join(
        f"({', '.join(_cell(value, type_) for value, type_ in zip(row, types, strict=True))})" for row in given
    )
    internal = session.fresh("v")
    columns = ", ".join(output.internal for output in outputs)
    empty = ", ".join(_cell(None, type_) for type_ in types)
    sql = (
        f"SELECT * FROM (VALUES {listed}) AS {internal}({columns})"
        if given
        else f"SELECT * FROM (VALUES ({empty})) AS {internal}({columns}) WHERE FALSE"
    )
    return rows_of_query(session, sql, outputs)


def _inline_type(name: Any, values: list[Any]) -> SqlType:
    if isinstance(name, str):
        if name.upper() == "STRING" and any(isinstance(value, list) for value in values):
            return MULTI_VARCHAR
        return expressions.named_type(name)
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, bool}:
        return BIGINT
    if kinds and kinds <= {int, float, bool}:
        return NAMED_TYPES["DOUBLE"]
    return MULTI_VARCHAR if list in kinds else VARCHAR


def _cell(value: Any, type_: SqlType) -> str:
    if isinstance(value, list):
        element = VARCHAR if type_.multi else element_of(type_)
        members = ", ".join(cast_to(constant(one), element).sql for one in value)
        return f"CAST([{members}] AS {type_.duckdb})"
    return f"CAST({cast_to(constant(value), type_).sql} AS {type_.duckdb})"


def _join(part: Part, left: Rows, right: Rows, intervals: tuple[Interval, ...]) -> Rows:
    prefix = part.text("rightPrefix")
    kind = part.text_or("INNER", "joinType").upper()
    if kind not in _JOINS:
        raise InvalidQuery(f"{part.at('joinType')}: {kind!r} is none of {', '.join(_JOINS)}")
    keeps_right = kind in ("RIGHT", "FULL")
    if keeps_right:
        # A row that the right side keeps for itself has no time to be judged by.
        for test in left.within(intervals):
            left.filter(test)
    if part.has("leftFilter"):
        left.filter(filter_sql(left, part.part("leftFilter")))
    sources = [*left.sources, *((prefix + inner, source) for inner, source in right.sources)]
    joined = Rows(left.session, "", sources, tables=left.tables, is_bounded=keeps_right)
    test = expressions.condition(joined, part.text("condition"))
    inner = f"({right.sql})" if " JOIN " in right.sql else right.sql
    joined.sql = f"{left.sql} {_JOINS[kind]} {inner} ON {test}"
    return joined


def _filtered(base: Rows, part: Part) -> Rows:
    base.filter(filter_sql(base, part))
    return base


def _unnested(part: Part, base: Rows) -> Rows:
    """One row per member of an array or multi-value string, under the virtual column's name."""
    column = part.part("virtualColumn")
    operand = virtual_column(base, column)
    if operand.family is not Family.ARRAY and not operand.type.multi:
        operand = cast_to(operand, MULTI_VARCHAR)
    internal, name = base.session.fresh("a"), column.text("outputName", "name")
    type_ = operand.type.member if operand.type.multi else element_of(operand.type)
    unnested = spread(operand) if operand.type.multi else f"unnest({operand.sql})"
    base.sql = f"{base.sql} CROSS JOIN LATERAL (SELECT {unnested} AS o0) AS {internal}"
    base.sources.insert(0, ("", Source(name, internal, (Output(name, "o0", type_),))))
    if part.has("unnestFilter"):
        base.filter(filter_sql(base, part.part("unnestFilter")))
    return base


_PLAIN: dict[str, Callable[[Session, Part], Rows]] = {
    "table": lambda session, part: _table(session, part.text("name")),
    "globalTable": lambda session, part: _table(session, part.text("name")),
    "union": lambda session, part: _union(session, [_name(one, part.path) for one in part.items("dataSources")]),
    "inline": _inline,
    "lookup": _lookup,
}
