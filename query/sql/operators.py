"""Rules for names, literals and operators: arithmetic, text, boolean logic, CASE and casts."""

from __future__ import annotations

import re
from typing import cast

from sqlglot import exp

from query.errors import InvalidQuery, UnsupportedQuery, did_you_mean
from query.sql import calendar_sql as cal
from query.sql import term as t
from query.sql.calendar_math import UNITS, Span, shift_ms
from query.sql.casts import as_boolean, as_number, as_string, cast_to
from query.sql.frame import REFUSED, Frame, node, per_member
from query.sql.multi_value import refuse_lists
from query.sql.parameters import parameter_term
from query.sql.scope import where
from query.sql.term import LONG_MAX, LONG_MIN, Term
from query.sql.types import (
    BIGINT,
    BOOLEAN,
    CHAR,
    DATE,
    DECIMAL,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NULL,
    VARCHAR,
    Family,
    SqlType,
    array_of,
    common_type,
)
from segments.civil import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

_SYMBOLS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_ADDED = "an INTERVAL is added to or taken from a TIMESTAMP"
# DuckDB refuses expressions nested deeper than 1,000, and a step of arithmetic may nest twice.
LONGEST_CHAIN = 400
TYPE_NAMES = {
    "CHAR": CHAR,
    "VARCHAR": VARCHAR,
    "TEXT": VARCHAR,
    "TINYINT": INTEGER,
    "SMALLINT": INTEGER,
    "INT": INTEGER,
    "BIGINT": BIGINT,
    "FLOAT": SqlType("FLOAT"),
    "REAL": DOUBLE,
    "DOUBLE": DOUBLE,
    "DECIMAL": DECIMAL,
    "BOOLEAN": BOOLEAN,
    "TIMESTAMP": SqlType("TIMESTAMP"),
    "DATE": SqlType("DATE"),
}


@node(exp.Column, parts="this table db catalog")
def _column(frame: Frame, tree: exp.Expr) -> Term:
    column = cast(exp.Column, tree)
    if not column.table and not column.this.args.get("quoted") and not frame.scope.has(column.name):
        bare = _bare(frame, column)
        if bare is not None:
            return bare
    return frame.column(column)


def _bare(frame: Frame, tree: exp.Column) -> Term | None:
    """What a name means that is a function without brackets."""
    name = tree.name.upper()
    if name in REFUSED:
        raise UnsupportedQuery(f"{name} is not supported: {REFUSED[name]}", where(tree))
    if name == "PI":
        return Term("pi()", DOUBLE)
    return t.time(frame.session.now()) if name == "LOCALTIMESTAMP" else None


@node(exp.Literal, parts="this is_string")
def _literal(frame: Frame, tree: exp.Expr) -> Term:
    if tree.args.get("is_string"):
        return t.text(tree.this)
    return number_term(str(tree.this))


def number_term(spelled: str) -> Term:
    """A number as it is written.

    Raises:
        InvalidQuery: a whole number beyond 64 bits.
    """
    if not spelled.lstrip("-").isdigit():
        try:
            return t.decimal(spelled)
        except ValueError as error:
            raise InvalidQuery(f"{spelled} is no number") from error
    if not LONG_MIN <= int(spelled) <= LONG_MAX:
        raise InvalidQuery(f"{spelled} is beyond 64 bits")
    return t.long(int(spelled))


@node(exp.Null)
def _null(frame: Frame, tree: exp.Expr) -> Term:
    return t.null()


@node(exp.National)
def _national_text(frame: Frame, tree: exp.Expr) -> Term:
    return t.text(tree.name)


@node(exp.Tuple, parts="expressions")
def _row(frame: Frame, tree: exp.Expr) -> Term:
    raise UnsupportedQuery(f"ROW is not supported: {REFUSED['ROW']}", where(tree))


@node(exp.UnicodeString, parts="this escape")
def _unicode_text(frame: Frame, tree: exp.Expr) -> Term:
    """U&'\\00fc': four hexadecimal digits behind the escape, six behind it and a plus; twice it is itself."""
    escape = tree.args.get("escape")
    mark = escape.name if isinstance(escape, exp.Expr) else "\\"
    found = re.escape(mark)

    def sign(match: re.Match[str]) -> str:
        digits = match[1] or match[2]
        return chr(int(digits, 16)) if digits else mark

    pattern = f"{found}(?:([0-9A-Fa-f]{{4}})|\\+([0-9A-Fa-f]{{6}})|{found})"
    try:
        text = re.sub(pattern, sign, str(tree.this))
        text.encode()
    except (ValueError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidQuery(f"U&{tree.this!r} names no character", where(tree)) from error
    return t.text(text)


@node(exp.Boolean)
def _boolean(frame: Frame, tree: exp.Expr) -> Term:
    return t.boolean(bool(tree.this))


@node(exp.Paren)
def _paren(frame: Frame, tree: exp.Expr) -> Term:
    return frame.term(tree.this)


@node(exp.Placeholder)
def _placeholder(frame: Frame, tree: exp.Expr) -> Term:
    if tree.this:
        raise UnsupportedQuery("parameters are written as ?", where(tree))
    return parameter_term(frame.session, tree)


@node(exp.Anonymous, parts="this expressions")
def _call(frame: Frame, tree: exp.Expr) -> Term:
    return frame.call(cast(exp.Anonymous, tree))


@node(exp.Neg)
def _negative(frame: Frame, tree: exp.Expr) -> Term:
    if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        return number_term(f"-{tree.this.this}")
    operand = as_number(frame.term(tree.this))
    return t.expression(f"-{operand.sql}", operand.type)


@node(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, parts="this expression typed safe")
def _arithmetic(frame: Frame, tree: exp.Expr) -> Term:
    # Long chains lean to the left: walked here, so that they cost no depth.
    spine = [tree]
    while type(spine[-1].this) in _SYMBOLS and frame.keys is None:
        spine.append(spine[-1].this)
    if len(spine) > LONGEST_CHAIN:
        raise InvalidQuery(f"{len(spine)} operators in a row are too many; at most {LONGEST_CHAIN} are read")
    result = frame.term(spine[-1].this)
    for step in reversed(spine):
        pair = [result, frame.term(step.expression)]
        symbol = _SYMBOLS[type(step)]
        # A lambda with a default has no type that mypy infers.
        result = per_member(frame, pair, lambda inner, both, symbol=symbol: arithmetic(inner, symbol, *both))  # type: ignore[misc]
    return result


def arithmetic(frame: Frame, symbol: str, left: Term, right: Term) -> Term:
    """One step of arithmetic. Longs stay longs: division truncates, and by zero gives NULL."""
    if Family.INTERVAL in (left.family, right.family):
        return _shifted(frame, symbol, left, right)
    if left.is_null or right.is_null:
        other = right if left.is_null else left
        return t.null(other.type if other.family in (Family.LONG, Family.DOUBLE) else INTEGER)
    for one, other in ((left, right), (right, left)):
        if one.family is Family.STRING and not one.type.multi and other.family is Family.LONG:
            # Druid's planner gives the text the number's type.
            cut = cast_to(one, other.type)
            left, right = (cut, other) if one is left else (other, cut)
    left, right = as_number(left), as_number(right)
    type_ = common_type(left.type, right.type) or DOUBLE
    if left.type == right.type == INTEGER:
        type_ = INTEGER
    if type_.family is Family.LONG:
        if symbol in "/%":
            divisor = right.sql if right.is_constant and right.value else f"nullif({right.sql}, 0)"
            return t.expression(f"{left.sql} {'//' if symbol == '/' else '%'} {divisor}", type_)
        return t.expression(f"{left.sql} {symbol} {right.sql}", type_)
    result = DECIMAL if DECIMAL in (left.type, right.type) and DOUBLE not in (left.type, right.type) else DOUBLE
    sides = [cast_to(side, DOUBLE).sql for side in (left, right)]
    if symbol == "%":
        # The operator keeps the sign of what is divided, as Java does; fmod does not.
        return t.expression(f"{sides[0]} % {sides[1]}", result)
    return t.expression(f"{sides[0]} {symbol} {sides[1]}", result)


def _shifted(frame: Frame, symbol: str, left: Term, right: Term) -> Term:
    moment, interval = (right, left) if left.family is Family.INTERVAL else (left, right)
    if symbol not in "+-" or moment.family is Family.INTERVAL or (symbol == "-" and moment is right):
        raise InvalidQuery(_ADDED)
    if moment.family is Family.STRING:
        moment = cast_to(moment, SqlType("TIMESTAMP"), frame.zone)
    if moment.family is not Family.TIME:
        raise InvalidQuery(f"an INTERVAL cannot be added to {moment.type.name}")
    months, fixed_ms = cast(tuple[int, int], interval.value)
    sign = -1 if symbol == "-" else 1
    span = Span(months=abs(months)) if months else Span(fixed_ms=abs(fixed_ms))
    if moment.type == DATE and span.fixed_ms % DAY_MS == 0:
        # Days of a date are those of the calendar, days of a time 24 hours each.
        span = Span(months=span.months, days=span.fixed_ms // DAY_MS)
    times = sign * (-1 if months < 0 or fixed_ms < 0 else 1)
    return shifted(frame.zone, moment, span, t.long(times))


def shifted(zone: str, moment: Term, span: Span, times: Term) -> Term:
    """A time moved by a period; a constant one at once."""
    type_ = SqlType("TIMESTAMP") if span.fixed_ms % DAY_MS else moment.type
    if moment.is_constant and isinstance(moment.value, int) and isinstance(times.value, int):
        return t.time(shift_ms(moment.value, span, times.value, zone), type_)
    return Term(cal.shift(moment.sql, span, times.sql, zone), type_)


@node(exp.Interval, parts="this unit")
def _interval(frame: Frame, tree: exp.Expr) -> Term:
    beside = tree.parent
    while isinstance(beside, exp.Paren):
        beside = beside.parent
    if not isinstance(beside, tuple(_SYMBOLS)):
        # There is no such value: nothing but a sum with a time gives it a meaning.
        raise InvalidQuery(_ADDED, where(tree))
    unit, amount = tree.args.get("unit"), frame.session_term(tree.this).value
    spelled = str(amount)
    if isinstance(unit, exp.IntervalSpan):
        if (unit.this.name, unit.expression.name) == ("YEAR", "MONTH") and spelled.count("-") == 1:
            years, months = map(_digits, spelled.split("-"))
            return Term("NULL", INTERVAL, (years * 12 + months, 0), True)
        return Term("NULL", INTERVAL, (0, _day_to_second_ms(spelled)), True)
    span = UNITS.get(unit.name.upper().rstrip("S") if unit is not None else "")
    if span is None or not re.fullmatch(r"[+-]?\d{1,15}", spelled, re.ASCII):
        raise InvalidQuery(f"INTERVAL {spelled!r} needs a whole number and a unit such as DAY", where(tree))
    count = int(spelled)
    # Intervals of days are exact multiples of 24 hours, those of months follow the calendar.
    return Term("NULL", INTERVAL, (span.months * count, (span.days * DAY_MS + span.fixed_ms) * count), True)


def _digits(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InvalidQuery(f"INTERVAL: {text!r} is not a whole number of years or months")
    return int(text)


def _day_to_second_ms(spelled: str) -> int:
    match = re.fullmatch(r"([+-])?(?:(\d{1,9}) )?(\d{1,9}(?::\d{1,9}){0,2}(?:\.\d{0,9})?)", spelled, re.ASCII)
    if match is None:
        raise InvalidQuery(f"INTERVAL {spelled!r} is not of the form '1 02:03:04'")
    parts = [float(part) for part in match[3].split(":")]
    widths = (HOUR_MS, MINUTE_MS, SECOND_MS) if len(parts) > 1 else (HOUR_MS,)
    total = sum(part * width for part, width in zip(parts, widths, strict=False))
    return (-1 if match[1] == "-" else 1) * (int(match[2] or 0) * DAY_MS + round(total))


@node(exp.DPipe, parts="this expression safe")
def _concat_operator(frame: Frame, tree: exp.Expr) -> Term:
    return per_member(frame, [frame.term(tree.this), frame.term(tree.expression)], _joined)


def _joined(frame: Frame, both: list[Term]) -> Term:
    return t.expression(" || ".join(as_string(side, frame.zone).sql for side in both), VARCHAR)


@node(exp.And, exp.Or)
def _connective(frame: Frame, tree: exp.Expr) -> Term:
    kind, word = type(tree), " AND " if isinstance(tree, exp.And) else " OR "
    operands, waiting, parts = [], [tree], []
    while waiting:
        part = waiting.pop()
        if type(part) is kind:
            waiting += [part.expression, part.this]
        else:
            parts.append(part)
            operands.append(as_boolean(frame.term(part)).sql)
    if isinstance(tree, exp.And) and frame.keys is None and contradicts(frame, parts):
        return t.boolean(False)
    return t.expression(word.join(operands), BOOLEAN)


_QUERIED = (exp.Any, exp.All)


def pinned(frame: Frame, parts: list[exp.Expr]) -> dict[str, list[Term]]:
    """Which multi-value strings conditions set equal to which text constants, by the text of the string."""
    found: dict[str, list[Term]] = {}
    for part in parts:
        if (
            isinstance(part, exp.EQ)
            and not isinstance(part.this, exp.Tuple)
            and not isinstance(part.expression, _QUERIED)
        ):
            sides = [frame.term(part.this), frame.term(part.expression)]
            for one, other in (sides, sides[::-1]):
                if one.type.multi and isinstance(other.value, str):
                    found.setdefault(one.sql, []).append(other)
    return found


def contradicts(frame: Frame, parts: list[exp.Expr]) -> bool:
    """True when one string should equal two texts: Druid's planner takes that for false, even of a multi-value one."""
    return any(len({one.value for one in values}) > 1 for values in pinned(frame, parts).values())


@node(exp.Not)
def _not(frame: Frame, tree: exp.Expr) -> Term:
    return t.expression(f"NOT {as_boolean(frame.term(tree.this)).sql}", BOOLEAN)


@node(exp.Cast, parts="this to _type")
def _cast(frame: Frame, tree: exp.Expr) -> Term:
    type_ = named_type(tree.args["to"])
    return per_member(frame, [frame.term(tree.this)], lambda inner, one: cast_one(inner, one[0], type_))


def cast_one(frame: Frame, operand: Term, type_: SqlType) -> Term:
    """What CAST says, of one value."""
    if operand.is_constant and isinstance(operand.value, str) and type_.family is Family.BOOLEAN:
        return t.boolean(operand.value.lower() in ("true", "1"))
    if type_.family is Family.BOOLEAN and operand.family in (Family.STRING, Family.DOUBLE):
        positive = f"{cast_to(operand, BIGINT).sql} > 0"
        words = f"CASE lower({operand.sql}) WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE ELSE {positive} END"
        return t.expression(words if operand.family is Family.STRING else positive, type_)
    found = cast_to(operand, type_, frame.zone)
    if operand.family is Family.STRING and type_.family in (Family.LONG, Family.DOUBLE):
        words = f"CASE lower({operand.sql}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END"
        return t.expression(f"coalesce({found.sql}, {words})", type_)
    return found


def named_type(tree: exp.Expr | None) -> SqlType:
    """The type that a cast names.

    Raises:
        InvalidQuery: there is no such type.
    """
    if tree is None:
        raise InvalidQuery("a type is missing")
    kind = tree.this.name if isinstance(tree, exp.DataType) else ""
    if kind == "ARRAY" and tree.expressions:
        return array_of(named_type(tree.expressions[0]))
    if kind not in TYPE_NAMES:
        meant = did_you_mean(tree.sql(), TYPE_NAMES) or f"; known are {', '.join(TYPE_NAMES)}"
        raise InvalidQuery(f"type {tree.sql()!r} is unknown{meant}")
    return TYPE_NAMES[kind]


def alike(frame: Frame, terms: list[Term], place: str) -> tuple[list[Term], SqlType]:
    """The terms as their common type.

    Raises:
        InvalidQuery: they have none.
    """
    type_: SqlType = NULL
    for one in terms:
        wider = common_type(type_, one.type)
        if wider is None:
            raise InvalidQuery(f"{place} mixes {type_.name} with {one.type.name}")
        type_ = wider
    return [cast_to(one, type_, frame.zone) for one in terms], type_


@node(exp.Array, parts="expressions")
def _array(frame: Frame, tree: exp.Expr) -> Term:
    terms = [frame.term(member) for member in tree.expressions]
    refuse_lists(terms)
    members, _ = alike(frame, terms or [t.null()], "ARRAY")
    type_ = array_of(members[0].type)
    element = SqlType(type_.element)
    inside = ", ".join(cast_to(member, element, frame.zone).sql for member in members) if tree.expressions else ""
    return Term(f"CAST([{inside}] AS {type_.duckdb})", type_)
