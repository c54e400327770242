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
from segments.errors import InvalidInterval
from segments.joda import compile_pattern

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")
_ISO_PATTERN = "yyyy-MM-dd'T'HH:mm:ss.SSSZZ"
_LETTERS_MAX = 100
_NUMBERS = {
    "C": ("year", "{} // 100"),
    "Y": ("year", "{}"),
    "y": ("year", "{}"),
    "x": ("isoyear", "{}"),
    "w": ("week", "{}"),
    "e": ("isodow", "{}"),
    "D": ("doy", "{}"),
    "d": ("day", "{}"),
    "M": ("month", "{}"),
    "K": ("hour", "{} % 12"),
    "k": ("hour", "({} + 23) % 24 + 1"),
    "h": ("hour", "({} + 11) % 12 + 1"),
    "H": ("hour", "{}"),
    "m": ("minute", "{}"),
    "s": ("second", "{}"),
}
"""Letters that are numbers of any width: the engine's part of a time, and what becomes of it."""
_OFFSETS = {"Z": "", "ZZ": ":"}
_FORMATS = {
    "yyyy": "%Y",
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
_PARSED["y"] = "%Y"


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
    civil = cal.local(moment.sql, zone)
    pieces, run = [], ""
    for token in _tokens(pattern):
        literal = _literal(token)
        spelled = literal.replace("%", "%%") if literal is not None else _FORMATS.get(_shortest(token))
        if spelled is not None:
            run += spelled
            continue
        pieces += [_spelled(run, civil), _rare(frame, token, civil, moment.sql, zone)]
        run = ""
    pieces.append(_spelled(run, civil))
    return t.expression(" || ".join(filter(None, pieces)) or "''", VARCHAR)


def _spelled(pattern: str, civil: str) -> str:
    return f"strftime({cal.stamp(civil)}, {t.text_sql(pattern)})" if pattern else ""


def _shortest(token: str) -> str:
    """Names in full are the same however many letters ask for them."""
    return token[: {"M": 4, "E": 4, "a": 1}.get(token[0], len(token))]


def _rare(frame: Frame, token: str, civil: str, utc_ms: str, zone: str) -> str:
    """What letters stand for that the engine does not format by itself."""
    letter, count, stamp = token[0], len(token), cal.stamp(civil)
    if count > _LETTERS_MAX:
        raise InvalidQuery(f"time pattern {token[:9]!r}... repeats a letter more than {_LETTERS_MAX} times")
    if letter == "G":
        return "'AD'"
    if letter == "Z":
        return t.text_sql(zone) if count > 2 else _offset(token, civil, utc_ms)
    if letter == "z" and count < 4:
        return f"{frame.session.kernel('time_zone_letters')}({utc_ms}, {t.text_sql(zone)})"
    if letter == "S":
        digits = f"printf('%03d', CAST({cal.remainder(civil, 1000)} AS BIGINT))"
        return f"left({digits}, {count})" if count < 3 else f"rpad({digits}, {count}, '0')"
    if letter not in _NUMBERS:
        raise UnsupportedQuery(f"time pattern letter {token!r} is not supported")
    part, change = _NUMBERS[letter]
    number = change.format(f"date_part('{part}', {stamp})")
    if letter in "Yyx" and count == 2:
        number = f"({number}) % 100"
    return f"printf('%0{count}d', CAST({number} AS BIGINT))"


def _offset(token: str, civil: str, utc_ms: str) -> str:
    minutes, colon = f"(({civil} - {utc_ms}) // 60000)", _OFFSETS[token]
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
    pattern = constant_text(terms[1], "the pattern of TIME_PARSE")
    tokens = _tokens(pattern)
    letters = [token for token in tokens if _literal(token) is None]
    if any(token[0] in "yY" for token in letters) and all(token in _PARSED for token in letters):
        spelled = "".join(_PARSED.get(token) or (_literal(token) or "").replace("%", "%%") for token in tokens)
        return Term(cal.utc(f"epoch_ms(try_strptime({text.sql}, {t.text_sql(spelled)}))", zone), TIMESTAMP)
    try:
        compile_pattern(pattern)
    except InvalidInterval as error:
        raise InvalidQuery(f"TIME_PARSE: {error}") from error
    found = f"{frame.session.kernel('time_of_text')}({text.sql}, {t.text_sql(pattern)})"
    is_zoned = any(token[0] in "Zz" for token in letters)
    return Term(found if is_zoned else cal.utc(found, zone), TIMESTAMP)
