"""Filters as SQL conditions, in three-valued logic; of a multi-value string any member may fulfil one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from query.errors import InvalidQuery
from query.native import expressions
from query.native.extraction import extracted
from query.native.intervals import condensed, parse_interval
from query.native.matching import matches
from query.native.ordering import known_order, sort_key
from query.native.request import Part
from query.native.rows import Rows, call, constant, time_within
from query.sql import term as t
from query.sql.bloom import held_sql
from query.sql.casts import as_number, as_string, cast_to, exact_long
from query.sql.comparison import compare, is_in, like
from query.sql.frame import Frame
from query.sql.multi_value import any_member, is_missing
from query.sql.scope import Scope
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, DOUBLE, VARCHAR, Family, SqlType, element_of

_Rule = Callable[[Rows, Part], str]
DEEPEST = 100
"""Filters inside each other."""


def where(rows: Rows, query: Part, name: str = "filter") -> list[str]:
    """The query's filter as a list of conditions: none when it has no filter."""
    return [filter_sql(rows, query.part(name))] if query.has(name) else []


def filter_sql(rows: Rows, part: Part, depth: int = 0) -> str:
    """One filter.

    Raises:
        QueryError: there is no such filter, it is not built, or it does not fit its column.
    """
    if depth > DEEPEST:
        raise InvalidQuery(f"filters are nested deeper than {DEEPEST}")
    kind = part.type
    if kind in ("and", "or"):
        found = [filter_sql(rows, inner, depth + 1) for inner in part.parts("fields")]
        return f"({f' {kind.upper()} '.join(found) or ('TRUE' if kind == 'and' else 'FALSE')})"
    if kind == "not":
        return f"(NOT {filter_sql(rows, part.part('field'), depth + 1)})"
    if kind in ("istrue", "isfalse"):
        test = filter_sql(rows, part.part("field"), depth + 1)
        return f"({test} IS NOT DISTINCT FROM {'TRUE' if kind == 'istrue' else 'FALSE'})"
    if kind in ("true", "false"):
        return kind.upper()
    if kind in ("javascript", "spatial"):
        raise part.unsupported("the filter")
    rule = _RULES.get(kind)
    if rule is None:
        raise part.unknown_type("filter")
    return rule(rows, part)


def _frame(rows: Rows) -> Frame:
    return Frame(rows.session, Scope(), clause="a filter")


def _operand(rows: Rows, part: Part) -> Term:
    found = rows.column(part.text("dimension", "column"))
    return extracted(rows.session, part.part("extractionFn"), found) if part.has("extractionFn") else found


def _missing(operand: Term) -> str:
    return is_missing(operand) if operand.type.multi else f"({operand.sql} IS NULL)"


def _any(rows: Rows, operand: Term, test: Callable[[Term], str]) -> str:
    return any_member(rows.session.fresh("x"), operand, test) if operand.type.multi else test(operand)


def _selector(rows: Rows, part: Part) -> str:
    operand, value = _operand(rows, part), part.get("value")
    if value is None:
        return _missing(operand)
    if _is_no_value(operand, value):
        # No number is that text; of null nothing is known.
        return f"(CASE WHEN {operand.sql} IS NOT NULL THEN FALSE END)"
    return _equal(rows, operand, value if isinstance(value, bool | int | float) else str(value))


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


def _is_no_value(operand: Term, value: Any) -> bool:
    """Whether no long or double of a column can be that value."""
    if operand.family not in (Family.LONG, Family.DOUBLE):
        return False
    return not _is_number(value) or (operand.family is Family.LONG and float(value) != int(float(value)))


def _equal(rows: Rows, operand: Term, value: Any) -> str:
    return compare(_frame(rows), "=", operand, _like_operand(operand, value)).sql


def _like_operand(operand: Term, value: Any) -> Term:
    """A constant by the type of what it is compared with: a text that is a number becomes one at once."""
    if operand.family is Family.STRING:
        return t.text(str(value) if not isinstance(value, bool) else str(value).lower())
    if operand.family is Family.LONG:
        try:
            number = constant(int(str(value)))
            return number.typed(BIGINT) if isinstance(number.value, int) else number
        except ValueError:
            pass
    return constant(value)


def _bloom(rows: Rows, part: Part) -> str:
    name = part.at("bloomKFilter")
    return held_sql(rows.session, _operand(rows, part), part.text("bloomKFilter"), name).sql


def _null(rows: Rows, part: Part) -> str:
    return _missing(_operand(rows, part))


def _equals(rows: Rows, part: Part) -> str:
    operand, value = _operand(rows, part), part.get("matchValue")
    if value is None:
        raise InvalidQuery(f"{part.at('matchValue')}: a value is needed; use the filter null for nulls")
    type_ = expressions.named_type(part.text_or("STRING", "matchValueType"))
    if isinstance(value, list):
        if type_.family is not Family.ARRAY:
            raise InvalidQuery(f"{part.at('matchValue')}: a list needs a matchValueType such as ARRAY<STRING>")
        if operand.family is not Family.ARRAY:
            # No string is an array, not even one of several values.
            return f"(CASE WHEN NOT {_missing(operand)} THEN FALSE END)"
        members = ", ".join(cast_to(constant(one), element_of(type_)).sql for one in value)
        return f"({operand.sql} = CAST([{members}] AS {type_.duckdb}))"
    if operand.family is Family.STRING and not operand.type.multi and type_.family in (Family.LONG, Family.DOUBLE):
        return _number_equal(operand, value, type_)
    return compare(_frame(rows), "=", operand, _typed(operand, value, type_.druid)).sql


def _number_equal(operand: Term, value: Any, type_: SqlType) -> str:
    """Whether a text is that number: '007' is 7; a text that is no number is equal to none."""
    number = exact_long(operand) if type_.family is Family.LONG else cast_to(operand, DOUBLE)
    wanted = cast_to(_number(value), BIGINT if type_.family is Family.LONG else DOUBLE)
    return f"(CASE WHEN {operand.sql} IS NOT NULL THEN coalesce({number.sql} = {wanted.sql}, FALSE) END)"


def _typed(operand: Term, value: Any, type_name: str) -> Term:
    """A constant of a named type, next to an operand."""
    if type_name == "STRING" or operand.family is Family.STRING:
        return t.text(str(value)) if operand.family is Family.STRING else _like_operand(operand, value)
    if type_name == "LONG" and not isinstance(value, float):
        return _like_operand(operand, value)
    return cast_to(_number(value), DOUBLE)


def _in(rows: Rows, part: Part) -> str:
    operand = _operand(rows, part)
    values = part.items("values", "sortedValues")
    type_ = expressions.named_type(part.text_or("STRING", "matchValueType"))
    if operand.family is Family.STRING and not operand.type.multi and type_.family in (Family.LONG, Family.DOUBLE):
        parts = [_number_equal(operand, value, type_) for value in values if value is not None]
        return f"({' OR '.join([*parts, *([_missing(operand)] if None in values else [])]) or 'FALSE'})"
    known = [_like_operand(operand, one) for one in values if one is not None and not _is_no_value(operand, one)]
    parts = [is_in(_frame(rows), operand, known).sql] if known else []
    if values and not known and len([one for one in values if one is not None]):
        parts = [f"(CASE WHEN NOT {_missing(operand)} THEN FALSE END)"]
    if None in values:
        parts.append(_missing(operand))
    return f"({' OR '.join(parts) or 'FALSE'})"


def _bound(rows: Rows, part: Part) -> str:
    operand = _operand(rows, part)
    numeric = part.flag("alphaNumeric")
    order = known_order(part.text_or("alphanumeric" if numeric else "lexicographic", "ordering"), part.at("ordering"))
    sides = _sides(part, "lowerStrict", "upperStrict")
    if not sides:
        return f"(NOT {_missing(operand)})"
    as_numbers = operand.family in (Family.LONG, Family.DOUBLE) and order == "numeric"

    def test(one: Term) -> str:
        one = one if as_numbers else as_string(one)
        parts = []
        for symbol, value in sides:
            if as_numbers:
                parts.append(_numeric_side(rows, symbol, one, value))
            else:
                limit = sort_key(rows.session, t.text(str(value)), order)
                parts.append(f"{sort_key(rows.session, one, order)} {symbol} {limit}")
        return f"({' AND '.join(parts)})"

    found = _any(rows, operand, test)
    found = _known(found) if order == "numeric" and not as_numbers else found
    if (
        operand.family is not Family.STRING
        or part.has("lower")
        or (part.get("upper") == "" and part.flag("upperStrict"))
    ):
        return found
    # Null is the smallest text.
    return f"({_missing(operand)} OR coalesce({found}, FALSE))"


def _numeric_side(rows: Rows, symbol: str, one: Term, value: Any) -> str:
    """A side that is no number lets nothing pass."""
    try:
        limit = _number(value)
    except InvalidQuery:
        return f"(CASE WHEN {one.sql} IS NOT NULL THEN FALSE END)"
    return compare(_frame(rows), symbol, one, limit).sql


def _sides(part: Part, lower_open: str, upper_open: str) -> list[tuple[str, Any]]:
    sides = []
    if part.has("lower"):
        sides.append((">" if part.flag(lower_open) else ">=", part.get("lower")))
    if part.has("upper"):
        sides.append(("<" if part.flag(upper_open) else "<=", part.get("upper")))
    return sides


def _range(rows: Rows, part: Part) -> str:
    operand = _operand(rows, part)
    type_ = expressions.named_type(part.text("matchValueType"))
    sides = _sides(part, "lowerOpen", "upperOpen")
    if not sides:
        raise InvalidQuery(f"{part.path}: lower or upper is needed")

    def test(one: Term) -> str:
        found = as_string(one) if type_ == VARCHAR else one if one.family is not Family.STRING else as_number(one)
        limits = [(symbol, t.text(str(value)) if type_ == VARCHAR else _number(value)) for symbol, value in sides]
        inside = f"({' AND '.join(compare(_frame(rows), symbol, found, limit).sql for symbol, limit in limits)})"
        if one.family is not Family.STRING or type_ == VARCHAR:
            return inside
        # A text that is no number is smaller than all of them.
        return (
            f"(CASE WHEN {one.sql} IS NOT NULL THEN coalesce({inside}, {'FALSE' if part.has('lower') else 'TRUE'}) END)"
        )

    return _any(rows, operand, test)


def _number(value: Any) -> Term:
    for read in (int, float):
        try:
            return constant(value if isinstance(value, int | float) else read(value))
        except (TypeError, ValueError):
            continue
    raise InvalidQuery(f"{value!r} is not a number")


def _like(rows: Rows, part: Part) -> str:
    escape = t.text(part.text("escape")) if part.has("escape") else None
    return like(_frame(rows), _textual(_operand(rows, part)), t.text(part.text("pattern")), escape).sql


def _textual(operand: Term) -> Term:
    return operand if operand.type.multi else as_string(operand)


def _regex(rows: Rows, part: Part) -> str:
    pattern = t.text(part.text("pattern"))
    return _any(
        rows,
        _textual(_operand(rows, part)),
        lambda one: cast_to(call(rows.session, "REGEXP_LIKE", one, pattern), BOOLEAN).sql,
    )


def _search(rows: Rows, part: Part) -> str:
    query = part.part("query")
    return _any(rows, _textual(_operand(rows, part)), lambda one: matches(rows.session, one, query))


def _interval(rows: Rows, part: Part) -> str:
    operand = _operand(rows, part)
    intervals = condensed(parse_interval(item) for item in part.items("intervals"))

    def within(one: Term) -> str:
        return time_within(one if one.family is Family.LONG else cast_to(one, BIGINT), intervals)

    found = _any(rows, operand, within)
    return found if operand.family is Family.LONG else _known(found)


def _known(found: str) -> str:
    """A text that is no number is not unknown to a range of numbers, and neither is a null: both lie outside."""
    return f"coalesce({found}, FALSE)"


def _expression(rows: Rows, part: Part) -> str:
    return expressions.condition(rows, part.text("expression"))


def _columns_equal(rows: Rows, part: Part) -> str:
    from query.native.dimensions import dimension_of

    terms = [
        dimension_of(rows, item, f"{part.at('dimensions')}[{at}]").term
        for at, item in enumerate(part.items("dimensions"))
    ]
    if len(terms) < 2:
        raise InvalidQuery(f"{part.at('dimensions')}: at least two are needed")
    if any(one.type.multi for one in terms):
        missing = _missing(terms[0])
        pairs = [
            f"(({missing} AND {_missing(other)}) OR coalesce({compare(_frame(rows), '=', terms[0], other).sql}, FALSE))"
            for other in terms[1:]
        ]
    else:
        texts = [as_string(one).sql for one in terms]
        pairs = [f"{texts[0]} IS NOT DISTINCT FROM {other}" for other in texts[1:]]
    return f"({' AND '.join(pairs)})"


def _array_contains(rows: Rows, part: Part) -> str:
    operand = rows.column(part.text("column"))
    value = part.get("elementMatchValue")
    if operand.family is not Family.ARRAY:
        return (
            _equal(rows, operand, value) if value is not None else f"(CASE WHEN NOT {_missing(operand)} THEN FALSE END)"
        )
    if value is None:
        return f"(len({operand.sql}) > list_count({operand.sql}))"
    element = cast_to(constant(value), element_of(operand.type))
    return f"list_contains({operand.sql}, {element.sql})"


_RULES: dict[str, _Rule] = {
    "bloom": _bloom,
    "selector": _selector,
    "extraction": _selector,
    "null": _null,
    "equals": _equals,
    "in": _in,
    "inType": _in,
    "bound": _bound,
    "range": _range,
    "like": _like,
    "regex": _regex,
    "search": _search,
    "interval": _interval,
    "expression": _expression,
    "columnComparison": _columns_equal,
    "arrayContainsElement": _array_contains,
}
