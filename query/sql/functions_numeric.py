"""Rules for mathematics and for choosing among values: COALESCE, NULLIF, GREATEST."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.sql import term as t
from query.sql.casts import as_long, as_number, cast_to
from query.sql.comparison import compare
from query.sql.frame import MANY, Arguments, Frame, function, per_member, scalar
from query.sql.operators import alike, arithmetic
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, NULL, Family

_DOUBLES = (
    "SIN COS TAN COT ASIN ACOS ATAN EXP LN LOG10 SQRT DEGREES RADIANS".split()  # noqa: SIM905
)
_DOMAINS = {
    "LN": "{0} <= 0",
    "LOG10": "{0} <= 0",
    "SQRT": "{0} < 0",
    "ASIN": "abs({0}) > 1",
    "ACOS": "abs({0}) > 1",
}


def rounded_to_whole(operand: Term, up: bool) -> Term:
    """FLOOR and CEIL of a number; longs stay as they are."""
    number = as_number(operand)
    return number if number.family is Family.LONG else t.call("ceil" if up else "floor", number.type, number.sql)


@scalar("CEILING")
def _ceiling(frame: Frame, terms: list[Term]) -> Term:
    return rounded_to_whole(terms[0], up=True)


def _double_function(name: str) -> None:
    @scalar(name)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        argument = cast_to(as_number(terms[0]), DOUBLE).sql
        value = f"{name.lower()}({argument})"
        if name in _DOMAINS:
            # Java gives NaN (or -Infinity at zero) where DuckDB raises.
            outside = _DOMAINS[name].format(argument)
            edge = f"WHEN {argument} = 0 THEN CAST('-Infinity' AS DOUBLE) " if name.startswith("L") else ""
            return t.expression(f"CASE {edge}WHEN {outside} THEN CAST('NaN' AS DOUBLE) ELSE {value} END", DOUBLE)
        return Term(value, DOUBLE)


for _name in _DOUBLES:
    _double_function(_name)


@scalar("POWER", least=2)
def _power(frame: Frame, terms: list[Term]) -> Term:
    return t.call("pow", DOUBLE, *(cast_to(as_number(one), DOUBLE).sql for one in terms))


@scalar("ATAN2", least=2)
def _atan2(frame: Frame, terms: list[Term]) -> Term:
    return t.call("atan2", DOUBLE, *(cast_to(as_number(one), DOUBLE).sql for one in terms))


@function("PI", least=0)
def _pi(frame: Frame, arguments: Arguments) -> Term:
    return Term("pi()", DOUBLE)


@scalar("ABS")
def _abs(frame: Frame, terms: list[Term]) -> Term:
    number = as_number(terms[0])
    return t.call("abs", number.type, number.sql)


@scalar("SIGN")
def _sign(frame: Frame, terms: list[Term]) -> Term:
    number = as_number(terms[0])
    return cast_to(Term(f"sign({number.sql})", BIGINT), number.type)


@scalar("MOD", least=2)
def _mod(frame: Frame, terms: list[Term]) -> Term:
    return arithmetic(frame, "%", *terms)


@scalar("DIV", least=2)
def _div(frame: Frame, terms: list[Term]) -> Term:
    return arithmetic(frame, "/", *(cast_to(as_number(one), BIGINT) for one in terms))


@scalar("SAFE_DIVIDE", least=2)
def _safe_divide(frame: Frame, terms: list[Term]) -> Term:
    left, right = (as_number(one) for one in terms)
    if Family.DOUBLE in (left.family, right.family):
        # Nothing of nothing is nothing: Druid takes the NaN for 0.
        top, bottom = cast_to(left, DOUBLE).sql, cast_to(right, DOUBLE).sql
        return t.expression(f"CASE WHEN {bottom} <> 0 THEN {top} / {bottom} WHEN {top} = 0 THEN 0.0 END", DOUBLE)
    return arithmetic(frame, "/", left, right)


@scalar("ROUND", least=1, most=2)
def _round(frame: Frame, terms: list[Term]) -> Term:
    number, digits = as_number(terms[0]), _digits(terms)
    if number.family is Family.LONG and digits >= 0:
        return number
    if number.family is Family.LONG or digits < 1:
        return t.call("round", number.type, number.sql, str(digits))
    return t.expression(_half_up(number.sql, digits), number.type)


def _half_up(x: str, digits: int) -> str:
    """Half up of the decimal that a double is written as, 1.005 to 1.01; only near a tie it is looked at closely."""
    scaled = f"(abs({x}) * 1e{digits})"
    near = f"{scaled} < 1e15 AND abs({scaled} - floor({scaled}) - 0.5) < 1e-6 * greatest(1.0, {scaled} * 1e-9)"
    decimal = f"TRY_CAST(CAST({x} AS VARCHAR) AS DECIMAL(38, 19))"
    exact = f"coalesce(CAST(round({decimal}, {digits}) AS DOUBLE), round({x}, {digits}))"
    return f"CASE WHEN {near} THEN {exact} ELSE round({x}, {digits}) END"


@scalar("TRUNCATE", "TRUNC", least=1, most=2)
def _truncate(frame: Frame, terms: list[Term]) -> Term:
    number, digits = as_number(terms[0]), _digits(terms)
    if number.family is Family.LONG:
        if digits >= 0:
            return number
        width = 10**-digits
        return t.expression(f"({number.sql} // {width}) * {width}", number.type)
    if digits == 0:
        return t.call("trunc", number.type, number.sql)
    scale = f"CAST(1e{digits} AS DOUBLE)"
    return t.expression(f"trunc({number.sql} * {scale}) / {scale}", number.type)


def _digits(terms: list[Term]) -> int:
    digits = terms[1].value if len(terms) > 1 else 0
    if not isinstance(digits, int) or isinstance(digits, bool) or not -18 <= digits <= 18:
        raise InvalidQuery("the number of digits must be a constant between -18 and 18")
    return digits


def _bitwise(name: str, template: str, count: int) -> None:
    @scalar(f"BITWISE_{name}", least=count)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        return t.expression(template.format(*(as_long(as_number(one)).sql for one in terms)), BIGINT)


for _name, _template in {"AND": "{0} & {1}", "OR": "{0} | {1}", "XOR": "xor({0}, {1})"}.items():
    _bitwise(_name, _template, 2)
_bitwise("COMPLEMENT", "~{0}", 1)
# Java takes the shift modulo 64 and lets bits fall off; DuckDB raises on both.
_bitwise("SHIFT_LEFT", "CAST(CAST({0} AS BIT) << CAST({1} & 63 AS INTEGER) AS BIGINT)", 2)
_bitwise("SHIFT_RIGHT", "{0} >> CAST({1} & 63 AS INTEGER)", 2)


@function("COALESCE", "NVL", "IFNULL", least=1, most=MANY)
def _coalesce(frame: Frame, arguments: Arguments) -> Term:
    return per_member(frame, [frame.term(argument) for argument in arguments], _first_known)


def _first_known(frame: Frame, given: list[Term]) -> Term:
    terms, type_ = alike(frame, given, "COALESCE")
    if type_ == NULL:
        return t.null()
    return Term(f"coalesce({', '.join(one.sql for one in terms)})", type_)


@scalar("NULLIF", least=2)
def _nullif(frame: Frame, terms: list[Term]) -> Term:
    first, second = terms
    if first.is_null:
        return first
    equal = compare(frame, "=", first, second).sql
    return t.expression(f"CASE WHEN {equal} THEN NULL ELSE {first.sql} END", first.type)


def _extreme(name: str) -> None:
    @scalar(name, least=1, most=MANY)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        same, type_ = alike(frame, terms, name)
        return t.null() if type_ == NULL else t.call(name.lower(), type_, *(one.sql for one in same))


_extreme("GREATEST")
_extreme("LEAST")


@scalar("BITWISE_CONVERT_DOUBLE_TO_LONG_BITS")
def _bits_of_double(frame: Frame, terms: list[Term]) -> Term:
    return Term(f"CAST(CAST({cast_to(as_number(terms[0]), DOUBLE).sql} AS BIT) AS BIGINT)", BIGINT)


@scalar("BITWISE_CONVERT_LONG_BITS_TO_DOUBLE")
def _double_of_bits(frame: Frame, terms: list[Term]) -> Term:
    return Term(f"CAST(CAST({as_long(as_number(terms[0])).sql} AS BIT) AS DOUBLE)", DOUBLE)
