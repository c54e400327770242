"""Translates a query: WITH, UNION ALL, VALUES and SELECT with its clauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from query.errors import InvalidQuery, UnsupportedQuery
from query.sql.casts import as_boolean, cast_to
from query.sql.conditions import choose_rows
from query.sql.frame import Frame, Session, holds_aggregate, refuse_parts
from query.sql.grouping import Grouping, group_keys, parted, unbounded
from query.sql.multi_value import as_array
from query.sql.operators import pinned
from query.sql.ordering import entry_sql, order_by, orders_of, ordinal
from query.sql.relations import FromBuilder, Plan
from query.sql.scope import OpenTable, Output, Scope, where
from query.sql.select_list import Item, selected
from query.sql.term import Term, null, one_zero
from query.sql.time_bounds import conjuncts, narrow
from query.sql.types import NULL, VARCHAR, SqlType, common_type

_PARTS = "expressions from_ joins where group having qualify order limit offset distinct with_ windows"
SELECT_PARTS = frozenset(_PARTS.split())
UNION_PARTS = frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"})


@dataclass(slots=True)
class QueryPlanner:
    """Plans queries and what is nested in them; ``ctes`` are the WITH names in sight."""

    ctes: dict[str, tuple[str, Plan]] = field(default_factory=dict)
    outer: Callable[[exp.Column], Term] | None = None

    def inside(self, frame: Frame, tree: exp.Expr) -> Plan:
        """Translates a query inside an expression; it sees the columns that the expression sees."""
        outer, self.outer = self.outer, frame.column
        try:
            return self._planned(frame.session, tree)
        finally:
            self.outer = outer

    def plan(self, session: Session, tree: exp.Expr) -> Plan:
        """Translates any query that stands by itself."""
        outer, self.outer = self.outer, None
        try:
            return self._planned(session, tree)
        finally:
            self.outer = outer

    def _planned(self, session: Session, tree: exp.Expr) -> Plan:
        outer, self.ctes = self.ctes, dict(self.ctes)
        try:
            prefix = self._with(session, tree.args.get("with_"))
            plan = self._body(session, tree)
        finally:
            self.ctes = outer
        return Plan(prefix + plan.sql, plan.columns)

    def _body(self, session: Session, tree: exp.Expr) -> Plan:
        if isinstance(tree, exp.Select):
            return self._select(session, tree)
        if isinstance(tree, exp.Union):
            return self._union(session, tree)
        if isinstance(tree, exp.Values):
            return self._values(session, tree)
        if isinstance(tree, exp.Subquery):
            refuse_parts(tree, frozenset({"this", "with_", "order", "limit", "offset"}))
            return self._tailed(session, tree, self.plan(session, tree.this))
        raise UnsupportedQuery(f"{tree.key.upper()} is not supported", where(tree))

    def _with(self, session: Session, with_: exp.Expr | None) -> str:
        if with_ is None:
            return ""
        if with_.args.get("recursive"):
            raise UnsupportedQuery("WITH RECURSIVE is not supported", where(with_))
        parts = []
        for cte in with_.expressions:
            plan, name = self.plan(session, cte.this), session.fresh("w")
            names = [identifier.name for identifier in cte.args["alias"].args.get("columns") or []]
            if names and len(names) != len(plan.columns):
                raise InvalidQuery(f"{cte.alias!r} lists {len(names)} columns for {len(plan.columns)}", where(cte))
            columns = tuple(
                Output(names[at] if names else column.name, column.internal, column.type)
                for at, column in enumerate(plan.columns)
            )
            self.ctes[cte.alias] = (name, Plan(plan.sql, columns))
            parts.append(f"{name} AS ({plan.sql})")
        return f"WITH {', '.join(parts)} "

    def _union(self, session: Session, tree: exp.Union) -> Plan:
        refuse_parts(tree, UNION_PARTS)
        left, right = self.plan(session, tree.this), self.plan(session, tree.expression)
        if len(left.columns) != len(right.columns):
            raise InvalidQuery(f"UNION joins {len(left.columns)} columns with {len(right.columns)}", where(tree))
        columns = tuple(
            Output(one.name, one.internal, _union_type(one, two))
            for one, two in zip(left.columns, right.columns, strict=True)
        )
        word = "UNION" if tree.args.get("distinct") else "UNION ALL"
        sql = f" {word} ".join(_recast(session, side, columns, word == "UNION") for side in (left, right))
        return self._tailed(session, tree, Plan(sql, columns))

    def _tailed(self, session: Session, tree: exp.Expr, plan: Plan) -> Plan:
        """ORDER BY and LIMIT around a union or a query in brackets."""
        if not any(tree.args.get(part) for part in ("order", "limit", "offset")):
            return plan
        frame, orders = Frame(session, Scope()), []
        for ordered in orders_of(tree):
            at = ordinal(ordered.this, len(plan.columns))
            names = [column.name for column in plan.columns]
            if at is None and isinstance(ordered.this, exp.Column) and ordered.this.name in names:
                at = names.index(ordered.this.name)
            if at is None:
                raise InvalidQuery("ORDER BY of a UNION names an output column", where(ordered))
            orders.append(entry_sql(str(at + 1), ordered))
        sql = f"SELECT * FROM ({plan.sql}) AS {session.fresh('a')}"
        sql += f" ORDER BY {', '.join(orders)}" if orders else ""
        return Plan(sql + _limit_sql(frame, tree), plan.columns)

    def _values(self, session: Session, tree: exp.Values) -> Plan:
        frame = Frame(session, Scope(), clause="VALUES")
        rows = [[frame.term(cell) for cell in getattr(row, "expressions", None) or [row]] for row in tree.expressions]
        if len({len(row) for row in rows}) != 1:
            raise InvalidQuery("every row of VALUES has the same number of columns", where(tree))
        types = list(map(_common, zip(*rows, strict=True)))
        columns = tuple(Output(f"EXPR${at}", f"o{at}", type_) for at, type_ in enumerate(types))
        selects = [
            "SELECT "
            + ", ".join(
                f"{cast_to(cell, col.type).sql} AS {col.internal}" for cell, col in zip(row, columns, strict=True)
            )
            for row in rows
        ]
        return Plan(" UNION ALL ".join(selects), columns)

    def _select(self, session: Session, tree: exp.Select) -> Plan:
        refuse_parts(tree, SELECT_PARTS)
        outer = self.outer
        source = FromBuilder(session, self.plan, self.ctes, Scope(outer=outer))
        source.build(tree)
        windows = {window.this.name: window for window in tree.args.get("windows") or []}
        rows = Frame(session, source.scope, clause="WHERE", named_windows=windows)
        condition, exact = _where_sql(rows, tree)
        alone = source.scope.sources[0].table if exact and len(source.scope.sources) == 1 else None
        asked = _taken(alone)
        items = selected(source.scope, tree)
        aliases = {
            item.name: item.tree for item in items if item.tree is not None and not item.name.startswith("EXPR$")
        }
        grouping = _grouping(rows, tree, items, aliases)
        from_sql = source.sql + (grouping.laterals(source.sql) if grouping else "")
        from_sql = parted(session, grouping, (f" FROM {from_sql}" if from_sql else "") + condition)
        frame = rows if grouping is None else Frame(session, source.scope, grouping.keys, rows, aliases)
        frame.named_windows = windows
        terms = [_stored(as_array(item.seen_by(frame))) for item in items]
        sql = "SELECT " + _distinct(tree, grouping)
        sql += ", ".join(f"{term.sql} AS o{at}" for at, term in enumerate(terms))
        sql += from_sql
        sql += grouping.sql if grouping else ""
        sql += _having_sql(frame, tree, grouping) + _qualify_sql(frame, tree, aliases)
        sql += order_by(frame, tree, terms, aliases, grouping) + _limit_sql(frame, tree)
        if alone is not None:
            alone.within_bounds = not alone.used
            alone.used = asked | alone.used
        columns = tuple(
            Output(item.name, f"o{at}", term.type) for at, (item, term) in enumerate(zip(items, terms, strict=True))
        )
        return Plan(sql, columns)


def _taken(table: OpenTable | None) -> dict[str, Output]:
    """The columns that WHERE has read, taken out: those read from now on are read by something else."""
    if table is None:
        return {}
    taken, table.used = table.used, {}
    return taken


def _where_sql(rows: Frame, tree: exp.Select) -> tuple[str, bool]:
    """The condition, and whether it asks only for times within the bounds that it gives its table."""
    clause = tree.args.get("where")
    if clause is None:
        return "", False
    if holds_aggregate(clause.this):
        raise InvalidQuery("aggregates are not allowed in WHERE; use HAVING", where(clause))
    for part in clause.walk(prune=lambda part: isinstance(part, exp.Query)):
        if isinstance(part, exp.Window):
            raise InvalidQuery("window functions are not allowed in WHERE; use a subquery around them", where(part))
    choose_rows(rows, clause.this)
    exact = narrow(rows, clause.this)
    rows.pinned = {sql: values[0] for sql, values in pinned(rows, list(conjuncts(clause.this))).items()}
    try:
        asked = unbounded(rows, clause)
        return f" WHERE {as_boolean(rows.term(asked)).sql}" if asked is not None else "", exact
    except InvalidQuery as error:
        error.context = error.context or where(clause)
        raise


def _grouping(rows: Frame, tree: exp.Select, items: list[Item], aliases: dict[str, exp.Expr]) -> Grouping | None:
    group, having = tree.args.get("group"), tree.args.get("having")
    trees = [item.tree for item in items if item.tree is not None] + [ordered.this for ordered in orders_of(tree)]
    trees += [tree.args["qualify"].this] if tree.args.get("qualify") else []
    aggregated = having is not None or any(holds_aggregate(part) for part in trees)
    if group is not None:
        return group_keys(rows, group, [(item.tree, item.term) for item in items], aliases)
    if aggregated:
        return Grouping({}, "")
    if tree.args.get("distinct") and not any(part.find(exp.Window) for part in trees):
        keys = Grouping({}, "", by_distinct=True)
        names = [keys.add(rows, item.term or rows.term(item.tree or exp.null()), item.tree) for item in items]
        keys.sql = f" GROUP BY {', '.join(names)}"
        return keys
    return None


def _distinct(tree: exp.Select, grouping: Grouping | None) -> str:
    distinct = tree.args.get("distinct")
    if distinct is None:
        return ""
    if distinct.args.get("on"):
        raise UnsupportedQuery("DISTINCT ON is not supported", where(tree))
    return "" if grouping is not None and grouping.by_distinct else "DISTINCT "


def _having_sql(frame: Frame, tree: exp.Select, grouping: Grouping | None) -> str:
    clause = tree.args.get("having")
    if clause is not None:
        choose_rows(frame, clause.this)
    conditions = [as_boolean(frame.term(clause.this)).sql] if clause is not None else []
    if grouping is not None and grouping.has_sets:
        # Without rows there are no groups, as in Druid; not even that of all rows.
        conditions.append("count(*) > 0")
    return f" HAVING {' AND '.join(conditions)}" if conditions else ""


def _qualify_sql(frame: Frame, tree: exp.Select, aliases: dict[str, exp.Expr]) -> str:
    """The condition of rows by their windows; it sees names of the select list."""
    clause = tree.args.get("qualify")
    if clause is None:
        return ""
    seen = Frame(frame.session, frame.scope, frame.keys, frame.rows, aliases, named_windows=frame.named_windows)
    asked = [*clause.find_all(exp.Column), clause]
    meant = [aliases.get(part.name, part) if isinstance(part, exp.Column) else part for part in asked]
    if not any(part.find(exp.Window) for part in meant):
        raise InvalidQuery("QUALIFY needs a window function; without one use WHERE or HAVING", where(clause))
    return f" QUALIFY {as_boolean(seen.term(clause.this)).sql}"


def _limit_sql(frame: Frame, tree: exp.Expr) -> str:
    limit, offset, sql = tree.args.get("limit"), tree.args.get("offset"), ""
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise UnsupportedQuery("FETCH with PERCENT or WITH TIES is not supported", where(limit))
        sql += f" LIMIT {row_count(frame, limit.args.get('count') or exp.Literal.number(1))}"
    elif limit is not None:
        refuse_parts(limit, frozenset({"expression"}))
        sql += f" LIMIT {row_count(frame, limit.expression)}"
    if offset is not None:
        sql += f" OFFSET {row_count(frame, offset.expression)}"
    return sql


def row_count(frame: Frame, tree: exp.Expr) -> int:
    """The number behind LIMIT or OFFSET.

    Raises:
        InvalidQuery: it is not a whole number, 0 or more.
    """
    value = frame.session_term(tree).value
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidQuery("LIMIT and OFFSET are whole numbers, not negative", where(tree))
    return value


def _stored(term: Term) -> Term:
    return null(VARCHAR).typed(NULL) if term.type == NULL else term


def _common(cells: tuple[Term, ...]) -> SqlType:
    result = cells[0].type
    for cell in cells[1:]:
        wider = common_type(result, cell.type)
        if wider is None:
            raise InvalidQuery(f"values of {result.name} and {cell.type.name} do not fit into one column")
        result = wider
    return result


def _union_type(left: Output, right: Output) -> SqlType:
    type_ = common_type(left.type, right.type)
    if type_ is None:
        raise InvalidQuery(f"UNION joins {left.name!r} of {left.type.name} with {right.type.name}")
    return type_


def _recast(session: Session, plan: Plan, columns: tuple[Output, ...], is_distinct: bool) -> str:
    """The query in brackets, with the union's column names and types; ``is_distinct``: of equal rows one is told."""
    alias = session.fresh("a")
    parts = []
    for have, want in zip(plan.columns, columns, strict=True):
        term = Term(f"{alias}.{have.internal}", have.type)
        cell = cast_to(term, want.type)
        parts.append(f"{(one_zero(cell) if is_distinct else cell).sql} AS {want.internal}")
    return f"SELECT {', '.join(parts)} FROM ({plan.sql}) AS {alias}"
