"""Rules that spell values for people: STRING_FORMAT and HUMAN_READABLE_*."""

from __future__ import annotations

import re

from query.errors import InvalidQuery, ResourceLimitExceeded, UnsupportedQuery
from query.sql import term as t
from query.sql.casts import as_number, as_string, cast_to
from query.sql.frame import MANY, Frame, scalar
from query.sql.functions_time import constant_text
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, VARCHAR, Family

_CONVERSION = re.compile(r"%([-#+ 0,(<$]*\d*[$]?[-#+ 0,(<]*\d*(?:\.\d+)?)(.)", re.DOTALL)
_PLAIN = re.compile(r"(?:[^%]|%s|%%)*", re.DOTALL)
_PADDED_MAX = 10_000
_SIZES = {
    "BINARY_BYTE": (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")),
    "DECIMAL_BYTE": (1000, ("B", "KB", "MB", "GB", "TB", "PB", "EB")),
    "DECIMAL": (1000, ("", "K", "M", "G", "T", "P", "E")),
}


@scalar("STRING_FORMAT", least=1, most=MANY)
def _string_format(frame: Frame, terms: list[Term]) -> Term:
    pattern, values = constant_text(terms[0], "the pattern of STRING_FORMAT"), terms[1:]
    if not values:
        return terms[0].typed(VARCHAR)
    padded = 0
    for match in _CONVERSION.finditer(pattern):
        if match[2] in ("t", "T"):
            raise UnsupportedQuery(f"STRING_FORMAT conversion {match[0]!r} is not supported; use TIME_FORMAT")
        # What is padded lies outside of the memory that the engine counts.
        padded += sum(map(int, re.findall(r"\d+", match[1])))
        if padded > _PADDED_MAX:
            raise ResourceLimitExceeded(f"STRING_FORMAT pads to more than {_PADDED_MAX} characters")
    asked = pattern.replace("%%", "").count("%s")
    if _PLAIN.fullmatch(pattern) is not None and asked <= len(values):
        texts = [f"coalesce({as_string(one, frame.zone).sql}, 'null')" for one in values[:asked]]
        return t.call("printf", VARCHAR, t.text_sql(pattern), *texts)
    listed = f"CAST(json_array({', '.join(map(_value, values))}) AS VARCHAR)"
    return t.call(frame.session.kernel("text_formatted"), VARCHAR, listed, terms[0].sql)


def _value(operand: Term) -> str:
    """A value as Java has it: a truth value and a time are longs."""
    if operand.is_null:
        return "NULL"
    if operand.family is Family.DOUBLE:
        number = cast_to(operand, DOUBLE).sql
        return f"CASE WHEN {number} IS NOT NULL THEN json_object('d', CAST({number} AS VARCHAR)) END"
    if operand.family is Family.STRING:
        return operand.sql
    if operand.family in (Family.LONG, Family.BOOLEAN, Family.TIME):
        return cast_to(operand, BIGINT).sql
    raise InvalidQuery(f"STRING_FORMAT takes no {operand.type.name}; use ARRAY_TO_STRING or TO_JSON_STRING")


def _human_readable(name: str) -> None:
    width, units = _SIZES[name]

    @scalar(f"HUMAN_READABLE_{name}_FORMAT", least=1, most=2)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        digits = terms[1].value if len(terms) > 1 else 2
        if not isinstance(digits, int) or not 0 <= digits <= 3:
            raise InvalidQuery("the precision is a constant from 0 to 3")
        number = cast_to(as_number(terms[0]), BIGINT).sql
        branches = [f"WHEN abs({number}) < {width} THEN CAST({number} AS VARCHAR) || {t.text_sql(_unit(units[0]))}"]
        for power, unit in enumerate(units[1:], 1):
            spelled = f"printf('%.{digits}f', {number} / {float(width**power)!r}) || {t.text_sql(_unit(unit))}"
            branches.append(f"WHEN abs({number}) < {width ** (power + 1)} THEN {spelled}")
        return t.expression(f"CASE {' '.join(branches)} END", VARCHAR)


def _unit(name: str) -> str:
    return f" {name}" if name else ""


for _name in _SIZES:
    _human_readable(_name)
