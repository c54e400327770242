"""The query type groupBy: groups of dimensions with having, subtotals, order and limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from query.errors import InvalidQuery
from query.native.dimensions import dimension_of
from query.native.extraction import extracted
from query.native.filters import filter_sql
from query.native.granularity import granularity_of
from query.native.grouping import Groups, reading
from query.native.intervals import start_as_written_ms
from query.native.ordering import known_order, ordered, sort_key
from query.native.plan import Draft, Setting
from query.native.request import Part, part_of
from query.native.rows import Rows, constant
from query.native.shapes import Stamps, json_object
from query.sql import term as t
from query.sql.casts import as_number, as_string
from query.sql.comparison import compare
from query.sql.frame import Frame, Session
from query.sql.scope import Output, Scope
from query.sql.term import Term
from query.sql.types import Family

_COMPARED = {"equalTo": "=", "greaterThan": ">", "lessThan": "<"}


def group_by(setting: Setting) -> Draft:
    """One row per group; without a limitSpec in the order of time and dimensions."""
    query, granularity = setting.query, granularity_of(setting.query, "all")
    read = reading(setting)
    specs = query.items("dimensions")
    dimensions = [dimension_of(read.rows, spec, f"dimensions[{at}]") for at, spec in enumerate(specs)]
    groups = Groups.of(setting, granularity, read, dimensions)
    sets = subtotals(query, [dimension.name for dimension in dimensions])
    selects = [groups.select(kind, kept) for kind, kept in enumerate(sets)] if sets else [groups.select(0)]
    sql = groups.with_posts(setting, " UNION ALL ".join(selects))
    if query.has("having"):
        known = Rows(setting.session, "", [], virtual=groups.names())
        sql = f"SELECT * FROM ({sql}) WHERE {having_sql(known, query.part('having'))}"
    order, limit = _order(setting, groups)
    columns = (groups.bucket, *groups.outputs)
    ranked = f"(SELECT *, row_number() OVER (PARTITION BY k ORDER BY {order}) AS r FROM ({sql})){limit} ORDER BY k, r"
    sql = f"SELECT {', '.join(column.internal for column in columns)} FROM {ranked}"
    inner = f"SELECT {', '.join(one.internal for one in (groups.bucket, *groups.inner_outputs))} FROM {ranked}"
    shape = GroupByShape(
        Stamps.of(setting, granularity),
        tuple(one.name for one in groups.outputs),
        setting.context.flag("resultAsArray"),
        start_as_written_ms(query),
    )
    return Draft(sql, columns, shape, lambda: groups.inner(inner))


def subtotals(query: Part, names: list[str]) -> list[frozenset[int]]:
    """The sets of dimensions of ``subtotalsSpec``, by their places.

    Raises:
        InvalidQuery: it names something else.
    """
    sets = []
    for listed in query.items("subtotalsSpec"):
        if not isinstance(listed, list) or any(name not in names for name in listed):
            raise InvalidQuery(f"subtotalsSpec: {listed!r} is not a list of dimensions of the query")
        sets.append(frozenset(names.index(name) for name in listed))
    return sets


def _order(setting: Setting, groups: Groups) -> tuple[str, str]:
    """The ORDER BY of a group's rank, and the WHERE that keeps the wanted ranks."""
    query, keys = setting.query, []
    spec = query.part("limitSpec") if query.has("limitSpec") else Part({"type": "default"}, "limitSpec")
    if spec.type == "noop":
        spec = Part({"type": "default"}, "limitSpec")
    if spec.type != "default":
        raise spec.unknown_type("limitSpec")
    by_name = {one.name: one for one in groups.outputs}
    for at, given in enumerate(spec.items("columns")):
        column = part_of({"dimension": given} if isinstance(given, str) else given, f"limitSpec.columns[{at}]")
        output = by_name.get(column.text("dimension"))
        if output is None:
            raise InvalidQuery(f"{column.path}: {column.text('dimension')!r} is no column of the answer")
        keys.append(_limit_key(setting.session, column, output))
    keys += [ordered(one.internal) for one in groups.outputs[: len(groups.dimensions)]]
    keys = [*keys, "t"] if setting.context.flag("sortByDimsFirst") else ["t", *keys]
    limit, offset = spec.whole("limit", least=1), spec.whole("offset", 0) or 0
    tests = [f"r > {offset}"] if offset else []
    tests += [f"r <= {offset + limit}"] if limit is not None else []
    return ", ".join(keys), f" WHERE {' AND '.join(tests)}" if tests else ""


def _limit_key(session: Session, column: Part, output: Output) -> str:
    direction = column.text_or("ascending", "direction").lower()
    direction = {"asc": "ascending", "desc": "descending"}.get(direction, direction)
    if direction not in ("ascending", "descending"):
        raise InvalidQuery(f"{column.at('direction')}: {direction!r} is neither ascending nor descending")
    value = Term(output.internal, output.type)
    given = column.get("dimensionOrder")
    if isinstance(given, dict):
        given = given.get("type")
    if output.type.family is not Family.STRING:
        return ordered(output.internal, direction == "descending")
    order = known_order(str(given or "lexicographic"), column.at("dimensionOrder"))
    return ordered(sort_key(session, value, order), direction == "descending")


def having_sql(known: Rows, part: Part) -> str:
    """A having clause; names are those of the answer.

    Raises:
        QueryError: there is no such clause, or it does not fit.
    """
    kind = part.type
    if kind in ("and", "or"):
        found = [having_sql(known, inner) for inner in part.parts("havingSpecs")]
        return f"({f' {kind.upper()} '.join(found) or 'TRUE'})"
    if kind == "not":
        return f"(NOT {having_sql(known, part.part('havingSpec'))})"
    if kind == "filter":
        return filter_sql(known, part.part("filter"))
    if kind in ("always", "never"):
        return "TRUE" if kind == "always" else "FALSE"
    if kind in _COMPARED:
        return _compared(known, part)
    if kind == "dimSelector":
        return _selected(known, part)
    raise part.unknown_type("having")


def _compared(known: Rows, part: Part) -> str:
    value, name = part.get("value"), part.text("aggregation")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidQuery(f"{part.at('value')}: a number is needed")
    found = known.find(name)
    if found is None:
        raise InvalidQuery(f"{part.at('aggregation')}: {name!r} is no column of the answer")
    frame = Frame(known.session, Scope(), clause="having")
    return compare(frame, _COMPARED[part.type], as_number(found), constant(value)).sql


def _selected(known: Rows, part: Part) -> str:
    operand = known.column(part.text("dimension"))
    if part.has("extractionFn"):
        operand = extracted(known.session, part.part("extractionFn"), operand)
    if not part.has("value"):
        return f"({operand.sql} IS NULL)"
    frame = Frame(known.session, Scope(), clause="having")
    return compare(frame, "=", as_string(operand), t.text(str(part.get("value")))).sql


@dataclass(frozen=True, slots=True)
class GroupByShape:
    """``[{version, timestamp, event}]``, or plain lists when the context asks for arrays."""

    stamps: Stamps
    names: tuple[str, ...]
    as_array: bool
    first_ms: int

    def pieces(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """The body."""
        between = stamp = ""
        last: str | None = None
        yield "["
        for bucket, *cells in rows:
            if self.as_array:
                listed = cells if self.stamps.granularity.is_all else [bucket, *cells]
                yield f"{between}[{','.join(listed)}]"
            else:
                if bucket != last:
                    stamp = self.stamps.json(self.first_ms if bucket == "null" else int(bucket))
                    last = bucket
                event = json_object(self.names, cells)
                yield f'{between}{{"version":"v1","timestamp":{stamp},"event":{event}}}'
            between = ","
        yield "]"
