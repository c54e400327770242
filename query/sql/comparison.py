"""Rules for comparisons: implicit casts between types, NULL tests, BETWEEN, IN and LIKE, and multi-value strings."""

from __future__ import annotations

from typing import cast

from sqlglot import exp

from query.errors import InvalidQuery
from query.sql import term as t
from query.sql.casts import as_boolean, as_string, cast_to
from query.sql.conditions import chosen, chosen_in
from query.sql.frame import PARTS, Frame, node, refuse_parts
from query.sql.multi_value import any_member, is_missing, is_none
from query.sql.scope import where
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, FLOAT, VARCHAR, Family, SqlType, common_type

SYMBOLS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_MIRRORED = {"=": "=", "<>": "<>", ">": "<", "<": ">", ">=": "<=", "<=": ">="}
LONG_LIST = 100
_MARK = "\x1f"
_ROWS = "rows are compared by = with a row of the same length"
_TIMESTAMP = SqlType("TIMESTAMP")


@node(*SYMBOLS)
def _comparison(frame: Frame, tree: exp.Expr) -> Term:
    symbol = SYMBOLS[type(tree)]
    if isinstance(tree.expression, exp.Any | exp.All):
        from query.sql.subqueries import compared_to_all

        return compared_to_all(frame, tree.this, symbol, tree.expression)
    if isinstance(tree.this, exp.Tuple) or isinstance(tree.expression, exp.Tuple):
        return _row_equality(frame, tree, symbol)
    found = chosen(frame, tree, symbol, tree.this, tree.expression)
    return found or compare(frame, symbol, frame.term(tree.this), frame.term(tree.expression))


def _row_equality(frame: Frame, tree: exp.Expr, symbol: str) -> Term:
    if symbol != "=":
        raise InvalidQuery(_ROWS, where(tree))
    return _rows_equal(frame, tree.this, tree.expression)


def _rows_equal(frame: Frame, left: exp.Expr, right: exp.Expr) -> Term:
    lists = [side.expressions if isinstance(side, exp.Tuple) else [] for side in (left, right)]
    if len(lists[0]) != len(lists[1]) or not lists[0]:
        raise InvalidQuery(_ROWS, where(left))
    pairs = [compare(frame, "=", frame.term(one), frame.term(two)).sql for one, two in zip(*lists, strict=True)]
    return t.expression(" AND ".join(pairs), BOOLEAN)


def compare(frame: Frame, symbol: str, left: Term, right: Term) -> Term:
    """Compares two terms as Druid casts them.

    Raises:
        InvalidQuery: they cannot be compared.
    """
    if left.type.multi or right.type.multi:
        return _compare_members(frame, symbol, left, right)
    if right.time_column and left.is_constant:
        left, right, symbol = right, left, _MIRRORED[symbol]
    left, right = comparable(left, right, frame.zone)
    if left.time_column and right.is_constant and isinstance(right.value, int):
        return t.expression(f"{left.time_column} {symbol} {t.zoned_sql(right.value)}", BOOLEAN)
    if left.time_column and right.time_column:
        return t.expression(f"{left.time_column} {symbol} {right.time_column}", BOOLEAN)
    return t.expression(f"{left.sql} {symbol} {right.sql}", BOOLEAN)


def _compare_members(frame: Frame, symbol: str, left: Term, right: Term) -> Term:
    if not left.type.multi:
        left, right, symbol = right, left, _MIRRORED[symbol]
    if symbol == "<>":
        return t.expression(f"NOT {_compare_members(frame, '=', left, right).sql}", BOOLEAN)
    if right.type.multi:
        if symbol != "=":
            raise InvalidQuery("two multi-value strings can only be compared by =")
        return t.expression(f"list_has_any({', '.join(_alike_members(frame, left, right))})", BOOLEAN)
    if symbol == "=" and left.family is right.family is Family.STRING and not left.lists:
        return Term(f"(CASE WHEN len({left.sql}) > 0 THEN list_contains({left.sql}, {right.sql}) END)", BOOLEAN)
    if symbol == "=" and left.family is right.family is Family.STRING:
        # What became of members: of a missing string one NULL, of which nothing is known.
        known = f"WHEN list_count({left.sql}) > 0 THEN FALSE"
        return Term(f"(CASE WHEN list_contains({left.sql}, {right.sql}) THEN TRUE {known} END)", BOOLEAN)
    condition = any_member(frame.session.fresh("x"), left, lambda member: compare(frame, symbol, member, right).sql)
    return Term(condition, BOOLEAN)


def _alike_members(frame: Frame, *sides: Term) -> list[str]:
    """Two lists of members that can be equal: as numbers where one holds numbers."""
    if all(side.family is Family.STRING for side in sides):
        return [side.sql for side in sides]
    name = frame.session.fresh("x")
    return [f"list_transform({side.sql}, lambda {name}: TRY_CAST({name} AS DOUBLE))" for side in sides]


def comparable(left: Term, right: Term, zone: str) -> tuple[Term, Term]:
    """Both terms as one type.

    Raises:
        InvalidQuery: there is none.
    """
    families = {left.family, right.family}
    if families == {Family.TIME, Family.LONG}:
        return cast_to(left, BIGINT, zone), cast_to(right, BIGINT, zone)
    if Family.TIME in families and Family.STRING in families:
        return _as_time(left, zone), _as_time(right, zone)
    for one, other in ((left, right), (right, left)):
        if one.family is Family.STRING and other.family in (Family.LONG, Family.DOUBLE, Family.BOOLEAN):
            type_ = other.type if other.type.name != "DECIMAL" else SqlType("DOUBLE")
            changed = cast_to(one, type_, zone)
            return (changed, other) if one is left else (other, changed)
    if FLOAT in (left.type, right.type) and (left.is_constant or right.is_constant) and families == {Family.DOUBLE}:
        return cast_to(left, FLOAT), cast_to(right, FLOAT)
    type_or_none = common_type(left.type, right.type)
    if type_or_none is None or Family.COMPLEX in families or Family.INTERVAL in families:
        raise InvalidQuery(f"{left.type.name} cannot be compared with {right.type.name}")
    if left.family is right.family and left.family in (Family.TIME, Family.STRING, Family.LONG):
        return left, right
    return cast_to(left, type_or_none, zone), cast_to(right, type_or_none, zone)


def _as_time(one: Term, zone: str) -> Term:
    return one if one.family is Family.TIME else cast_to(one, _TIMESTAMP, zone)


@node(exp.NullSafeEQ, exp.NullSafeNEQ)
def _distinct_from(frame: Frame, tree: exp.Expr) -> Term:
    left, right = frame.term(tree.this), frame.term(tree.expression)
    word = "IS NOT DISTINCT FROM" if isinstance(tree, exp.NullSafeEQ) else "IS DISTINCT FROM"
    if left.type.multi or right.type.multi:
        equal = f"coalesce({compare(frame, '=', left, right).sql}, FALSE)"
        return Term(equal if isinstance(tree, exp.NullSafeEQ) else f"(NOT {equal})", BOOLEAN)
    left, right = comparable(left, right, frame.zone)
    return t.expression(f"{left.sql} {word} {right.sql}", BOOLEAN)


def _is_told(tree: exp.Expr) -> bool:
    """Whether what stands there is a value of rows or groups, not a condition on them."""
    around = tree.parent
    while around is not None and not isinstance(around, exp.Where | exp.Filter | exp.Join | exp.Query):
        around = around.parent
    return isinstance(around, exp.Query)


@node(exp.Is)
def _is(frame: Frame, tree: exp.Expr) -> Term:
    operand = frame.term(tree.this)
    if isinstance(tree.expression, exp.Null):
        if not operand.type.multi:
            return Term(f"({operand.sql} IS NULL)", BOOLEAN)
        return Term(is_none(operand) if _is_told(tree) else is_missing(operand), BOOLEAN)
    if isinstance(tree.expression, exp.Boolean):
        word = "TRUE" if tree.expression.this else "FALSE"
        return t.expression(f"{as_boolean(operand).sql} IS NOT DISTINCT FROM {word}", BOOLEAN)
    raise InvalidQuery("IS needs NULL, TRUE, FALSE or DISTINCT FROM", where(tree))


@node(exp.Between, parts="this low high symmetric")
def _between(frame: Frame, tree: exp.Expr) -> Term:
    found = _chosen_between(frame, tree)
    if found is not None:
        return found
    operand = frame.term(tree.this)
    low, high = (frame.term(tree.args[side]) for side in ("low", "high"))
    if tree.args.get("symmetric"):
        ways = [_within(frame, operand, *sides).sql for sides in ((low, high), (high, low))]
        return t.expression(" OR ".join(ways), BOOLEAN)
    return _within(frame, operand, low, high)


def _chosen_between(frame: Frame, tree: exp.Expr) -> Term | None:
    sides = [(">=", tree.args["low"]), ("<=", tree.args["high"])]
    found = [chosen(frame, tree, symbol, tree.this, side) for symbol, side in sides]
    if tree.args.get("symmetric") or None in found or frame.term(tree.this).type.multi:
        return None
    return t.expression(" AND ".join(one.sql for one in found if one is not None), BOOLEAN)


def _within(frame: Frame, operand: Term, low: Term, high: Term) -> Term:
    if operand.type.multi:
        return Term(
            any_member(
                frame.session.fresh("x"),
                operand,
                lambda member: (
                    f"({compare(frame, '>=', member, low).sql} AND {compare(frame, '<=', member, high).sql})"
                ),
            ),
            BOOLEAN,
        )
    bounds = [compare(frame, ">=", operand, low).sql, compare(frame, "<=", operand, high).sql]
    return t.expression(" AND ".join(bounds), BOOLEAN)


@node(exp.In, parts="this expressions query")
def _in(frame: Frame, tree: exp.Expr) -> Term:
    if tree.args.get("query") is not None:
        from query.sql.subqueries import in_subquery

        return in_subquery(frame, tree)
    if isinstance(tree.this, exp.Tuple):
        rows = [_rows_equal(frame, tree.this, row).sql for row in tree.expressions]
        return t.expression(" OR ".join(rows), BOOLEAN)
    found = chosen_in(frame, cast(exp.In, tree))
    return found or is_in(frame, frame.term(tree.this), [frame.term(member) for member in tree.expressions])


def is_in(frame: Frame, operand: Term, members: list[Term]) -> Term:
    """Membership in a list, with SQL's NULL logic. One list for what shares a type keeps long lists cheap."""
    if operand.type.multi:
        equals = [compare(frame, "=", operand, member).sql for member in members if not member.is_null]
        return t.expression(" OR ".join(equals) or "NULL", BOOLEAN)
    if any(member.type.multi for member in members):
        return t.expression(" OR ".join(compare(frame, "=", operand, member).sql for member in members), BOOLEAN)
    pairs = [comparable(operand, member, frame.zone) for member in members]
    left_sides = {left.sql for left, _ in pairs}
    if len(left_sides) == 1:
        left = pairs[0][0]
        if left.time_column and all(isinstance(right.value, int) for _, right in pairs):
            listed = ", ".join(t.zoned_sql(right.value) for _, right in pairs if isinstance(right.value, int))
            return t.expression(f"{left.time_column} IN ({listed})", BOOLEAN)
        return t.expression(f"{left.sql} IN ({_listed(left, [right for _, right in pairs])})", BOOLEAN)
    return t.expression(" OR ".join(f"{left.sql} = {right.sql}" for left, right in pairs), BOOLEAN)


def _listed(left: Term, members: list[Term]) -> str:
    """The members of an IN. DuckDB takes seconds to bind 50,000 constants, so long lists go as one text."""
    values = [member.value for member in members if member.is_constant and member.value is not None]
    type_ = {Family.LONG: "BIGINT", Family.STRING: "VARCHAR"}.get(left.family)
    plain = all(isinstance(value, int if type_ == "BIGINT" else str) for value in values)
    texts = [str(value) for value in values]
    if (
        len(members) <= LONG_LIST
        or len(values) < len(members)
        or not type_
        or not plain
        or any(_MARK in s for s in texts)
    ):
        return ", ".join(member.sql for member in members)
    split = f"string_split({t.text_sql(_MARK.join(texts))}, {t.text_sql(_MARK)})"
    return f"SELECT unnest(CAST({split} AS {type_}[]))"


@node(exp.Like, parts="this expression negate")
def _like(frame: Frame, tree: exp.Expr) -> Term:
    return _liked(frame, tree, None)


@node(exp.Escape)
def _like_escape(frame: Frame, tree: exp.Expr) -> Term:
    inner = tree.this
    if not isinstance(inner, exp.Like):
        raise InvalidQuery("ESCAPE follows LIKE", where(tree))
    refuse_parts(inner, PARTS[exp.Like])
    return _liked(frame, inner, frame.term(tree.expression))


def _liked(frame: Frame, tree: exp.Expr, escape: Term | None) -> Term:
    operand, pattern = frame.term(tree.this), frame.term(tree.expression)
    if operand.type.multi and pattern.value == "%":
        # Druid's planner takes that for IS NOT NULL.
        return Term(f"({'' if tree.args.get('negate') else 'NOT '}{is_missing(operand)})", BOOLEAN)
    found = like(frame, operand, pattern, escape)
    return t.expression(f"NOT {found.sql}", BOOLEAN) if tree.args.get("negate") else found


def like(frame: Frame, operand: Term, pattern: Term, escape: Term | None) -> Term:
    """LIKE, case sensitive; without ESCAPE no character escapes."""
    if operand.type.multi:
        name = frame.session.fresh("x")
        return Term(any_member(name, operand, lambda member: like(frame, member, pattern, escape).sql), BOOLEAN)
    suffix = ""
    if escape is not None:
        if not isinstance(escape.value, str) or len(escape.value) != 1:
            raise InvalidQuery("ESCAPE needs one character")
        suffix = f" ESCAPE {escape.sql}"
    text, wanted = as_string(operand, frame.zone), cast_to(pattern, VARCHAR, frame.zone)
    return t.expression(f"{text.sql} LIKE {wanted.sql}{suffix}", BOOLEAN)
