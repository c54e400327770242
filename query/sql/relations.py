"""Translates FROM: tables, subqueries, VALUES, UNNEST and every kind of join, into one DuckDB FROM and a scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from query.errors import InvalidQuery, UnknownName, UnsupportedQuery
from query.sql import metadata
from query.sql.casts import as_boolean, cast_to
from query.sql.catalogue import LOOKUP_COLUMNS
from query.sql.frame import Frame, Session, refuse_parts
from query.sql.multi_value import spread
from query.sql.pivots import pivoted
from query.sql.scope import OpenTable, Output, Scope, Source, where
from query.sql.term import Term, null
from query.sql.types import Family, SqlType, common_type, element_of

# Joins behind a table that stands in brackets with it are read by who reads the brackets.
TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "joins"})
JOIN_PARTS = frozenset({"this", "kind", "side", "method", "on", "using"})
_SIDES = {"": "", "LEFT": "LEFT ", "RIGHT": "RIGHT ", "FULL": "FULL "}


@dataclass(frozen=True, slots=True)
class Plan:
    """A translated query: its text and the columns it gives."""

    sql: str
    columns: tuple[Output, ...]


Planner = Callable[[Session, exp.Expr], Plan]


@dataclass(slots=True)
class FromBuilder:
    """Builds one FROM from left to right; ``ctes`` are the WITH queries that names may mean."""

    session: Session
    plan: Planner
    ctes: dict[str, tuple[str, Plan]]
    scope: Scope
    sql: str = ""

    def build(self, select: exp.Select) -> None:
        """Reads FROM and its joins."""
        from_ = select.args.get("from_")
        if from_ is None:
            return
        self._joined(from_.this, select.args.get("joins") or [])

    def _joined(self, first: exp.Expr, joins: list[exp.Join]) -> None:
        self.sql, sources = self._operand(first)
        self.scope.sources += sources
        for join in joins:
            self._join(join)

    def _operand(self, item: exp.Expr) -> tuple[str, list[Source]]:
        """One side of a join: an item, or a join in brackets, whose tables keep their names."""
        if not _is_bracket(item):
            sql, source = self._item(item)
            return sql, [source]
        if item.args.get("alias") is not None:
            raise UnsupportedQuery("a join in brackets has no name of its own", where(item))
        refuse_parts(item, frozenset({"this"}))
        inner = FromBuilder(self.session, self.plan, self.ctes, Scope(outer=self.scope.outer))
        joins = item.this.args.get("joins") or []
        inner._joined(item.this, joins)
        self.scope.merged.update(inner.scope.merged)
        return f"({inner.sql})" if joins else inner.sql, inner.scope.sources

    def _join(self, join: exp.Join) -> None:
        refuse_parts(join, JOIN_PARTS)
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        natural = (join.args.get("method") or "").upper()
        if natural not in ("", "NATURAL"):
            raise UnsupportedQuery(f"{natural} JOIN is not supported", where(join))
        if side not in _SIDES or kind not in ("", "INNER", "OUTER", "CROSS"):
            raise UnsupportedQuery(f"{side} {kind} JOIN is not supported".strip(), where(join))
        left = Scope(list(self.scope.sources), dict(self.scope.merged))
        item, right = self._operand(join.this)
        self.scope.sources += right
        on, using = join.args.get("on"), join.args.get("using")
        if natural:
            using = _shared(left.sources, right)
        if kind == "CROSS" and (on is not None or using):
            raise InvalidQuery("CROSS JOIN takes no ON or USING", where(join))
        if using:
            condition = self._using(using, left, Scope(right), side)
        elif on is not None:
            condition = as_boolean(Frame(self.session, self.scope, clause="ON").term(on)).sql
        else:
            if side:
                raise InvalidQuery(f"{side} JOIN needs ON or USING", where(join))
            self.sql += f" CROSS JOIN {item}"
            return
        self.sql += f" {_SIDES[side]}JOIN {item} ON {condition}"

    def _using(self, names: list[exp.Expr], left: Scope, right: Scope, side: str) -> str:
        conditions = []
        for name in (identifier.name for identifier in names):
            here, there = (one.column(exp.column(name)) for one in (left, right))
            type_ = common_type(here.type, there.type)
            if type_ is None:
                raise InvalidQuery(f"USING column {name!r} has types that cannot be compared")
            here, there = cast_to(here, type_), cast_to(there, type_)
            conditions.append(f"{here.sql} = {there.sql}")
            both = Term(f"coalesce({here.sql}, {there.sql})", type_)
            self.scope.merged[name] = both if side == "FULL" else there if side == "RIGHT" else here
        return " AND ".join(conditions)

    def _item(self, item: exp.Expr) -> tuple[str, Source]:
        if item.args.get("pivots"):
            return self._pivoted(item)
        if isinstance(item, exp.Table):
            return self._table(item)
        if isinstance(item, exp.Unnest):
            return self._unnest(item)
        if isinstance(item, exp.Subquery | exp.Values):
            return self._subquery(item)
        raise UnsupportedQuery(f"{item.key.upper()} in FROM is not supported", where(item))

    def _pivoted(self, item: exp.Expr) -> tuple[str, Source]:
        """PIVOT and UNPIVOT as the queries that they mean, from left to right."""
        source, pivots = item, item.args["pivots"]
        source.set("pivots", None)
        for pivot in pivots:
            opened = len(self.session.tables)
            looking = FromBuilder(self.session, self.plan, self.ctes, Scope())
            names = [column.name for column in looking._item(source)[1].columns]
            # Only its columns were asked for.
            del self.session.tables[opened:]
            query = pivoted(source, pivot, names)
            source = exp.Subquery(this=query, alias=pivot.args.get("alias"))
        return self._item(source)

    def _table(self, item: exp.Table) -> tuple[str, Source]:
        refuse_parts(item, TABLE_PARTS)
        if not isinstance(item.this, exp.Identifier):
            appended = appended_names(item.this)
            if appended:
                return self._named(*self._append(appended, item), item, "")
            raise UnsupportedQuery(f"table function {item.this.name or item.name!r} is not supported", where(item))
        name, schema, catalog = item.name, item.db, item.catalog
        if not schema and name in self.ctes:
            relation, plan = self.ctes[name]
            return self._named(relation, plan, item, name)
        if catalog not in ("", "druid"):
            raise UnknownName("Catalog", catalog, ("druid",), where(item))
        table = self._opened(schema or "druid", name, item)
        internal = self.session.fresh("a")
        alias = item.alias or name
        return f"{table.relation} AS {internal}", Source(alias, internal, self._renamed(item, table.columns), table)

    def _append(self, names: list[str], item: exp.Expr) -> tuple[str, Plan]:
        """Rows of several tables, matched by column name; a column that a table lacks is NULL there."""
        tables = [self._opened("druid", name, item) for name in names]
        types: dict[str, SqlType] = {}
        for column in (column for table in tables for column in table.columns):
            wider = common_type(types.get(column.name, column.type), column.type)
            if wider is None:
                raise InvalidQuery(f"APPEND: column {column.name!r} has types that do not fit", where(item))
            types[column.name] = wider
        outputs = tuple(Output(name, f"o{at}", type_) for at, (name, type_) in enumerate(types.items()))
        selects = []
        for table in tables:
            source = Source(table.name, self.session.fresh("a"), table.columns, table)
            cells = [(output, source.find(output.name)) for output in outputs]
            parts = []
            for output, found in cells:
                cell = cast_to(source.term(found), output.type) if found else null(output.type)
                parts.append(f"{cell.sql} AS {output.internal}")
            selects.append(f"SELECT {', '.join(parts)} FROM {table.relation} AS {source.internal}")
        plan = Plan(" UNION ALL ".join(selects), outputs)
        return f"({plan.sql})", plan

    def _opened(self, schema: str, name: str, item: exp.Expr) -> OpenTable:
        if schema == "druid":
            found = self.session.catalogue.table(name)
            if found is None:
                raise UnknownName("Table", name, self.session.catalogue.table_names(), where(item))
            defined = found.columns
        elif schema == "lookup":
            catalogue = self.session.catalogue
            if not catalogue.has_lookup(name):
                raise UnknownName("Lookup", name, catalogue.lookup_names(), where(item))
            defined = LOOKUP_COLUMNS
        else:
            defined = metadata.columns_of(schema, name, where(item))
        outputs = tuple(Output(column.name, f"c{at}", column.type) for at, column in enumerate(defined))
        table = OpenTable(schema, name, self.session.fresh("t"), outputs)
        self.session.tables.append(table)
        return table

    def _subquery(self, item: exp.Subquery | exp.Values) -> tuple[str, Source]:
        query = item.this if isinstance(item, exp.Subquery) else item
        if isinstance(item, exp.Subquery):
            refuse_parts(item, frozenset({"this", "alias", "with_", "joins"}))
        plan = self.plan(self.session, query)
        return self._named(f"({plan.sql})", plan, item, "")

    def _named(self, relation: str, plan: Plan, item: exp.Expr, name: str) -> tuple[str, Source]:
        internal = self.session.fresh("a")
        return f"{relation} AS {internal}", Source(item.alias or name, internal, self._renamed(item, plan.columns))

    def _unnest(self, item: exp.Unnest) -> tuple[str, Source]:
        refuse_parts(item, frozenset({"expressions", "alias"}))
        if len(item.expressions) != 1:
            raise UnsupportedQuery("UNNEST takes one array", where(item))
        argument = item.expressions[0]
        array = Frame(self.session, self.scope, clause="UNNEST").term(argument)
        if array.family is Family.ARRAY:
            keeps_null = isinstance(argument, exp.Anonymous) and argument.name.upper() == "MV_TO_ARRAY"
            sql = spread(array) if keeps_null else f"unnest({array.sql})"
            type_ = element_of(array.type)
        else:
            raise InvalidQuery("UNNEST needs an array; use MV_TO_ARRAY for a multi-value string", where(item))
        internal = self.session.fresh("a")
        columns = self._renamed(item, (Output("EXPR$0", "o0", type_),))
        return f"LATERAL (SELECT {sql} AS o0) AS {internal}", Source(item.alias, internal, columns)

    def _renamed(self, item: exp.Expr, columns: tuple[Output, ...]) -> tuple[Output, ...]:
        alias = item.args.get("alias")
        names = [identifier.name for identifier in (alias.args.get("columns") or [])] if alias else []
        if not names:
            return columns
        if len(names) != len(columns):
            raise InvalidQuery(f"{item.alias!r} lists {len(names)} columns for {len(columns)}", where(item))
        return tuple(Output(name, column.internal, column.type) for name, column in zip(names, columns, strict=True))


def _is_bracket(item: exp.Expr) -> bool:
    """Whether it is a table or a join that stands in brackets of its own, as reporting tools write them."""
    inner = item.this if isinstance(item, exp.Subquery) else None
    return isinstance(inner, exp.Table) or (
        isinstance(inner, exp.Subquery) and (bool(inner.args.get("joins")) or _is_bracket(inner))
    )


def _shared(left: list[Source], right: list[Source]) -> list[exp.Expr]:
    """The names that both sides of a NATURAL JOIN have, in the order of the right one."""
    names = {column.name for source in left for column in source.columns}
    found = dict.fromkeys(column.name for source in right for column in source.columns)
    return [exp.to_identifier(name, quoted=True) for name in found if name in names]


def appended_names(call: exp.Expr) -> list[str]:
    """The tables of TABLE(APPEND('a', 'b')); empty for any other call."""
    inner = call.expressions[0] if isinstance(call, exp.Anonymous) and len(call.expressions) == 1 else None
    if not isinstance(inner, exp.Anonymous) or (call.name.upper(), inner.name.upper()) != ("TABLE", "APPEND"):
        return []
    literals = [part for part in inner.expressions if isinstance(part, exp.Literal) and part.is_string]
    return [part.name for part in literals] if len(literals) == len(inner.expressions) else []
