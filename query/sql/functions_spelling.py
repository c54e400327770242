"""Rules that spell values for people: STRING_FORMAT and HUMAN_READABLE_*."""

from __future__ import annotations

import re

from query.errors import InvalidQuery, ResourceLimitExceeded, UnsupportedQuery
from query.sql import term as t
from query.sql.casts import as_number, as_string, cast_to
from query.sql.frame import MANY, Frame, scalar
from query.sql.functions_time import constant_text
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, VARCHAR

_CONVERSION = re.compile(r"%([-+ 0]*\d*(?:\.\d+)?)(.)|[^%]+", re.DOTALL)
_PADDED_MAX = 10_000
_SIZES = {
    "BINARY_BYTE": (1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")),
    "DECIMAL_BYTE": (1000, ("B", "KB", "MB", "GB", "TB", "PB", "EB")),
    "DECIMAL": (1000, ("", "K", "M", "G", "T", "P", "E")),
}


@scalar("STRING_FORMAT", least=1, most=MANY)
def _string_format(frame: Frame, terms: list[Term]) -> Term:
    pattern, waiting, values = constant_text(terms[0], "the pattern of STRING_FORMAT"), list(terms[1:]), []
    padded = 0
    for match in _CONVERSION.finditer(pattern):
        kind = match[2]
        if kind in (None, "%"):
            continue
        if kind not in "sdfxe":
            raise UnsupportedQuery(f"STRING_FORMAT conversion {match[0]!r} is not supported")
        # What is padded lies outside of the memory that the engine counts.
        padded += sum(map(int, re.findall(r"\d+", match[1])))
        if padded > _PADDED_MAX:
            raise ResourceLimitExceeded(f"STRING_FORMAT pads to more than {_PADDED_MAX} characters")
        if not waiting:
            raise InvalidQuery("STRING_FORMAT has more conversions than arguments")
        values.append(_value(frame, kind, waiting.pop(0)))
    return t.call("printf", VARCHAR, t.text_sql(pattern), *values)


def _value(frame: Frame, kind: str, operand: Term) -> str:
    if kind == "s":
        return f"coalesce({as_string(operand, frame.zone).sql}, 'null')"
    return cast_to(as_number(operand), BIGINT if kind in "dx" else DOUBLE).sql


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
