"""Casts as Druid does: what cannot be converted is NULL, never an error and never a wrapped number."""

from __future__ import annotations

from collections.abc import Callable

from query.errors import InvalidQuery
from query.sql import calendar_sql as cal
from query.sql import term as t
from query.sql.calendar_math import floor_to_day_ms, parse_time_ms
from query.sql.java_text import java_text, java_text_once
from query.sql.multi_value import any_member
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, MULTI_VARCHAR, NULL, VARCHAR, Family, SqlType
from segments.coercion import java_double

_SHORT = 40
_MEMBER = "member_of_condition"
_DOCUMENT = "member_of_documents"
_INTEGER = "'[+-]?[0-9]+'"
_NUMBER = "'[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?'"
_SHORT_TIME = "'[0-9]{4}(-[0-9]{1,2}(-[0-9]{1,2}([T ][0-9]{1,2}(:[0-9]{1,2}(:[0-9]{1,2})?)?)?)?)?'"
_SHORTER = (
    "['%Y', '%Y-%m', '%Y-%m-%d', '%Y-%m-%dT%H', '%Y-%m-%d %H', '%Y-%m-%dT%H:%M', '%Y-%m-%d %H:%M', "
    "'%Y-%m-%dT%H:%M:%S', '%Y-%m-%d %H:%M:%S']"
)
_TIME = "'[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?'"


def cast_to(term: Term, type_: SqlType, zone: str = "UTC") -> Term:
    """The term as another type; times without a zone are read and written in ``zone``.

    Raises:
        InvalidQuery: no value of the one type can be one of the other.
    """
    if term.type == type_:
        return term
    if term.is_null or term.type == NULL:
        return t.null(type_)
    if type_.multi:
        return Term(_as_list(term, zone), MULTI_VARCHAR)
    if term.type.multi:
        raise InvalidQuery(f"a multi-value string cannot be cast to {type_.name}")
    rule = _RULES.get(type_.family)
    if rule is None:
        raise InvalidQuery(f"{term.type.name} cannot be cast to {type_.name}")
    return rule(term, type_, zone)


def as_boolean(term: Term) -> Term:
    """The term as a condition.

    Raises:
        InvalidQuery: it is neither a boolean nor a number.
    """
    if term.family not in (Family.BOOLEAN, Family.LONG, Family.NULL):
        raise InvalidQuery(f"a condition is a BOOLEAN, not {term.type.name}")
    if term.type.multi:
        return Term(any_member(_MEMBER, term, lambda member: cast_to(member, BOOLEAN).sql), BOOLEAN)
    return cast_to(term, BOOLEAN)


def as_string(term: Term, zone: str = "UTC") -> Term:
    """The term as text.

    Raises:
        InvalidQuery: it has several values, or none that is text.
    """
    if term.type.multi:
        raise InvalidQuery("a multi-value string cannot stand here; use MV_TO_STRING or MV_TO_ARRAY")
    return term if term.family is Family.STRING else cast_to(term, VARCHAR, zone)


def as_long(term: Term) -> Term:
    """The term as a long of 64 bits, which functions want; sums have 128. Beyond 64 bits it is NULL."""
    cast = cast_to(term, BIGINT)
    return cast if cast.is_constant else Term(f"TRY_CAST({cast.sql} AS BIGINT)", BIGINT)


def as_number(term: Term) -> Term:
    """The term as a number: longs and doubles as they are, anything else by its cast."""
    if term.family in (Family.LONG, Family.DOUBLE):
        return term
    return cast_to(term, BIGINT if term.family in (Family.BOOLEAN, Family.TIME) else DOUBLE)


def _as_list(term: Term, zone: str) -> str:
    if term.family is Family.ARRAY:
        return f"CAST({_plain_members(term)} AS VARCHAR[])"
    if term.type.multi:
        return f"CAST({term.sql} AS VARCHAR[])"
    text = as_string(term, zone).sql
    return f"(CASE WHEN {text} IS NOT NULL THEN [{text}] END)"


def _to_string(term: Term, type_: SqlType, zone: str) -> Term:
    family = term.family
    if family is Family.TIME:
        pattern = "%Y-%m-%d" if term.type == DATE else "%Y-%m-%d %H:%M:%S"
        return t.call("strftime", VARCHAR, cal.stamp(cal.local(term.sql, zone)), t.text_sql(pattern))
    if family is Family.BOOLEAN:
        return t.expression(f"CASE WHEN {term.sql} THEN '1' WHEN NOT {term.sql} THEN '0' END", VARCHAR)
    if family is Family.ARRAY or family is Family.COMPLEX:
        raise InvalidQuery(f"{term.type.name} cannot be cast to VARCHAR; use ARRAY_TO_STRING")
    if term.is_constant and isinstance(term.value, str):
        return term.typed(type_)
    if family is Family.DOUBLE:
        return _double_text(term)
    return term.typed(type_) if family is Family.STRING else Term(f"CAST({term.sql} AS VARCHAR)", VARCHAR)


def _double_text(term: Term) -> Term:
    if term.is_constant and isinstance(term.value, int | float):
        return t.text(java_double(float(term.value))).typed(VARCHAR)
    is_column = len(term.sql) <= _SHORT
    return t.expression(java_text(term.sql) if is_column else java_text_once(term.sql), VARCHAR)


def _to_long(term: Term, type_: SqlType, zone: str) -> Term:
    family = term.family
    if family is Family.STRING:
        return _text_to_long(term, type_)
    if family is Family.DOUBLE:
        return Term(f"TRY_CAST(trunc({term.sql}) AS BIGINT)", type_)
    if family is Family.TIME:
        return Term(term.sql, type_, term.value, term.is_constant)
    if family is Family.LONG:
        return term.typed(type_)
    if family is Family.BOOLEAN:
        return Term(f"CAST({term.sql} AS BIGINT)", type_)
    raise InvalidQuery(f"{term.type.name} cannot be cast to {type_.name}")


def _text_to_long(term: Term, type_: SqlType) -> Term:
    """A number without what is behind its point: '12', '007', '1e3', '3.5'; not ' 9 '."""
    sql = term.sql
    return t.expression(
        f"CASE WHEN regexp_full_match({sql}, {_INTEGER}) THEN TRY_CAST({sql} AS BIGINT) "
        f"WHEN regexp_full_match({sql}, {_NUMBER}) THEN TRY_CAST(trunc(TRY_CAST({sql} AS DOUBLE)) AS BIGINT) END",
        type_,
    )


def exact_long(term: Term, type_: SqlType = BIGINT) -> Term:
    """A text that is a whole number: '12', '007', '1e3'; not '3.5', not ' 9 '. So conditions and groups of the column
    itself see it in Druid."""
    sql = term.sql
    decimal = f"TRY_CAST({sql} AS DECIMAL(38, 12))"
    return t.expression(
        f"CASE WHEN regexp_full_match({sql}, {_INTEGER}) THEN TRY_CAST({sql} AS BIGINT) "
        f"WHEN regexp_full_match({sql}, {_NUMBER}) AND {decimal} = trunc({decimal}) "
        f"THEN TRY_CAST({decimal} AS BIGINT) END",
        type_,
    )


def _to_double(term: Term, type_: SqlType, zone: str) -> Term:
    if term.is_constant and isinstance(term.value, int | float) and type_.name != "FLOAT":
        return t.double(float(term.value), type_)
    if term.family is Family.STRING:
        sql = term.sql
        return t.expression(
            f"CASE WHEN regexp_full_match({sql}, {_NUMBER}) OR {sql} IN ('NaN', 'Infinity', '-Infinity') "
            f"THEN TRY_CAST({sql} AS {type_.duckdb}) END",
            type_,
        )
    if term.family in (Family.LONG, Family.DOUBLE, Family.BOOLEAN, Family.TIME):
        return Term(f"CAST({term.sql} AS {type_.duckdb})", type_)
    raise InvalidQuery(f"{term.type.name} cannot be cast to {type_.name}")


def _to_boolean(term: Term, type_: SqlType, zone: str) -> Term:
    if term.family is Family.STRING:
        return t.expression(f"lower({term.sql}) = 'true'", BOOLEAN)
    if term.family in (Family.LONG, Family.DOUBLE):
        return t.expression(f"{term.sql} > 0", BOOLEAN)
    raise InvalidQuery(f"{term.type.name} cannot be cast to BOOLEAN")


def _to_time(term: Term, type_: SqlType, zone: str) -> Term:
    if term.is_constant and isinstance(term.value, str):
        value_ms = parse_time_ms(term.value, zone)
        if value_ms is None:
            raise InvalidQuery(f"{term.value!r} is not a time such as 2024-02-29 or 2024-02-29 12:34:56.789")
        return t.time(floor_to_day_ms(value_ms, zone) if type_ == DATE else value_ms, type_)
    if term.family is Family.STRING:
        term = text_to_time(term.sql, zone)
    elif term.family in (Family.LONG, Family.DOUBLE):
        term = as_long(term)
    elif term.family is not Family.TIME:
        raise InvalidQuery(f"{term.type.name} cannot be cast to {type_.name}")
    if type_ == DATE and term.type != DATE:
        if term.is_constant and isinstance(term.value, int):
            return t.time(floor_to_day_ms(term.value, zone), DATE)
        return Term(cal.floor_days(term.sql, zone, 1, 0), DATE)
    return term.typed(type_)


def text_to_time(sql: str, zone: str) -> Term:
    """A text in ISO 8601 or SQL form as a time; NULL when it is neither."""
    zoned = f"epoch_ms(TRY_CAST({sql} AS TIMESTAMPTZ))"
    plain = cal.utc(f"epoch_ms(TRY_CAST({sql} AS TIMESTAMP))", zone)
    shorter = cal.utc(f"epoch_ms(try_strptime({sql}, {_SHORTER}))", zone)
    week = f"CASE WHEN len({sql}) < 10 THEN {sql} || '-1' ELSE {sql} END"
    of_year = cal.utc(f"epoch_ms(try_strptime({sql}, '%Y-%j'))", zone)
    of_week = cal.utc(f"epoch_ms(try_strptime({week}, '%G-W%V-%u'))", zone)
    return t.expression(
        f"CASE WHEN regexp_full_match({sql}, {_TIME}) THEN {plain} "
        f"WHEN regexp_full_match({sql}, {_SHORT_TIME}) THEN {shorter} "
        f"WHEN regexp_full_match({sql}, '[0-9]{{4}}-[0-9]{{3}}') THEN {of_year} "
        f"WHEN regexp_full_match({sql}, '[0-9]{{4}}-W[0-9]{{2}}(-[1-7])?') THEN {of_week} "
        f"WHEN regexp_full_match({sql}, {_TIME[:-1]}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})') THEN {zoned} END",
        SqlType("TIMESTAMP"),
    )


def _to_array(term: Term, type_: SqlType, zone: str) -> Term:
    if term.family is Family.ARRAY:
        return Term(f"TRY_CAST({_plain_members(term)} AS {type_.duckdb})", type_)
    raise InvalidQuery(f"{term.type.name} cannot be cast to an array")


def _plain_members(term: Term) -> str:
    """The list, its JSON texts without their quotes."""
    if term.type.element != "json":
        return term.sql
    return f"list_transform({term.sql}, lambda {_DOCUMENT}: json_extract_string({_DOCUMENT}, '$'))"


_RULES: dict[Family, Callable[[Term, SqlType, str], Term]] = {
    Family.STRING: _to_string,
    Family.LONG: _to_long,
    Family.DOUBLE: _to_double,
    Family.BOOLEAN: _to_boolean,
    Family.TIME: _to_time,
    Family.ARRAY: _to_array,
}
