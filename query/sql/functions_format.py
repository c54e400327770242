"""Rules for times as text: TIME_FORMAT and TIME_PARSE with Joda patterns."""

from __future__ import annotations

import re

from query.errors import InvalidQuery, UnsupportedQuery
from query.sql import calendar_sql as cal
from query.sql import term as t
from query.sql.calendar_math import parse_time_ms
from query.sql.casts import as_string, text_to_time
from query.sql.frame import Frame, scalar
from query.sql.functions_time import as_time, constant_text, zone_argument
from query.sql.term import Term
from query.sql.types import TIMESTAMP, VARCHAR

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")
_ISO_PATTERN = "yyyy-MM-dd'T'HH:mm:ss.SSSZZ"
_OFFSETS = {"Z": "", "ZZ": ":"}
_FORMATS = {
    "yyyy": "%Y",
    "y": "%-Y",
    "YYYY": "%Y",
    "yy": "%y",
    "xxxx": "%G",
    "MM": "%m",
    "M": "%-m",
    "MMM": "%b",
    "MMMM": "%B",
    "ww": "%V",
    "dd": "%d",
    "d": "%-d",
    "DDD": "%j",
    "D": "%-j",
    "EEE": "%a",
    "E": "%a",
    "EEEE": "%A",
    "e": "%u",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "a": "%p",
    "mm": "%M",
    "m": "%-M",
    "ss": "%S",
    "s": "%-S",
    "SSS": "%g",
}
# What strptime reads; week years and day names do not fix a date there.
_PARSED = {token: spelled.replace("%-", "%") for token, spelled in _FORMATS.items() if token not in ("xxxx", "ww", "e")}


def _tokens(pattern: str) -> list[str]:
    found = [match.group() for match in _TOKEN.finditer(pattern)]
    if "".join(found) != pattern:
        raise InvalidQuery(f"time pattern {pattern!r} has an unclosed quote")
    return found


def _literal(token: str) -> str | None:
    """The text a token stands for by itself; None for a pattern letter."""
    if token.startswith("'"):
        return "'" if token == "''" else token[1:-1].replace("''", "'")
    return None if token[0].isalpha() else token


@scalar("TIME_FORMAT", least=1, most=3)
def _time_format(frame: Frame, terms: list[Term]) -> Term:
    moment = as_time(terms[0], frame.zone)
    given = len(terms) > 1 and not terms[1].is_null
    pattern = constant_text(terms[1], "the pattern of TIME_FORMAT") if given else _ISO_PATTERN
    zone = zone_argument(frame, terms, 2)
    parts: list[str] = [""]
    for token in _tokens(pattern):
        literal = _literal(token)
        if literal is not None:
            parts[-1] += literal.replace("%", "%%")
        elif token in _OFFSETS:
            parts += [token, ""]
        elif token in _FORMATS:
            parts[-1] += _FORMATS[token]
        else:
            raise UnsupportedQuery(f"time pattern letter {token!r} is not supported")
    civil = cal.local(moment.sql, zone)
    # Offsets stand at the odd places.
    pieces = [_piece(part, bool(at % 2), civil, moment.sql) for at, part in enumerate(parts) if part]
    return t.expression(" || ".join(pieces or ["''"]), VARCHAR)


def _piece(part: str, is_offset: bool, civil: str, utc_ms: str) -> str:
    if not is_offset:
        return f"strftime({cal.stamp(civil)}, {t.text_sql(part)})"
    minutes = f"(({civil} - {utc_ms}) // 60000)"
    colon = _OFFSETS[part]
    return (
        f"(CASE WHEN {minutes} < 0 THEN '-' ELSE '+' END || "
        f"printf('%02d{colon}%02d', abs({minutes}) // 60, abs({minutes}) % 60))"
    )


@scalar("TIME_PARSE", least=1, most=3)
def _time_parse(frame: Frame, terms: list[Term]) -> Term:
    text, zone = as_string(terms[0], frame.zone), zone_argument(frame, terms, 2)
    if len(terms) == 1 or terms[1].is_null:
        if text.is_constant and isinstance(text.value, str):
            value_ms = parse_time_ms(text.value, zone)
            return t.null(TIMESTAMP) if value_ms is None else t.time(value_ms)
        return text_to_time(text.sql, zone)
    spelled = ""
    for token in _tokens(constant_text(terms[1], "the pattern of TIME_PARSE")):
        literal = _literal(token)
        if literal is None and token not in _PARSED:
            raise UnsupportedQuery(f"time pattern letter {token!r} is not supported in TIME_PARSE")
        spelled += literal.replace("%", "%%") if literal is not None else _PARSED[token]
    if not spelled:
        raise InvalidQuery("the pattern of TIME_PARSE is empty")
    return Term(cal.utc(f"epoch_ms(try_strptime({text.sql}, {t.text_sql(spelled)}))", zone), TIMESTAMP)
