"""Functions of texts. Positions count characters; what would grow without bound is refused."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from segments.expression.values import (
    LONG_MAX,
    LONG_MIN,
    TEXT_MOST,
    ExpressionFailed,
    Function,
    Value,
    bounded,
    double_of,
    long_of,
    small,
    text_of,
    truth,
)
from segments.filter.parse import like_to_pattern


def _on_text(function: Callable[..., Value]) -> Function:
    """Null where the first argument is; it comes as text, the others as they are."""

    def apply(a: Sequence[Value]) -> Value:
        text = text_of(a[0])
        return None if text is None else function(text, *a[1:])

    return apply


def _on_texts(function: Callable[..., Value]) -> Function:
    """Null where any argument is; all come as texts."""

    def apply(a: Sequence[Value]) -> Value:
        texts = [text_of(value) for value in a]
        return None if None in texts else function(*texts)

    return apply


@lru_cache(maxsize=500)
def pattern_of(text: str) -> re.Pattern[str]:
    """The compiled regular expression.

    Raises:
        ExpressionFailed: it is none.
    """
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ExpressionFailed(f"{text[:100]!r} is no regular expression: {error}") from error


def _concat(a: Sequence[Value]) -> Value:
    texts = [text_of(value) for value in a]
    # As recorded from Druid one null makes all null.
    return None if None in texts else bounded("".join(text for text in texts if text is not None))


def _like(text: str, pattern: Value, escape: Value = None) -> Value:
    spelt = text_of(pattern)
    if spelt is None:
        return None
    return truth(pattern_of(_like_pattern(spelt, text_of(escape))).search(text) is not None)


@lru_cache(maxsize=500)
def _like_pattern(pattern: str, escape: str | None) -> str:
    if escape is not None and len(escape) != 1:
        raise ExpressionFailed("the escape of like is one character")
    return like_to_pattern(pattern, escape).replace(r"\z", r"\Z")


def _extract(text: str, pattern: Value, group: Value = 0) -> Value:
    spelt = text_of(pattern)
    match = None if spelt is None else pattern_of(spelt).search(text)
    if match is None:
        return None
    index = small(group, "the group")
    if not 0 <= index <= match.re.groups:
        raise ExpressionFailed(f"the pattern has no group {index}")
    return match[index]


def _regexp_replace(text: str, pattern: str, replacement: str) -> str:
    if len(text) * max(1, len(replacement)) > TEXT_MOST * 4:
        raise ExpressionFailed(f"a text of more than {TEXT_MOST} characters")
    return bounded(pattern_of(pattern).sub(_java_replacement(replacement), text))


@lru_cache(maxsize=500)
def _java_replacement(replacement: str) -> str:
    r"""Java's ``$1`` as Python's ``\g<1>``; a backslash quotes the next character."""

    out: list[str] = []
    position = 0
    for match in re.finditer(r"\$(\d)|\\(.)", replacement, re.DOTALL):
        quoted = rf"\g<{match[1]}>" if match[1] else match[2].replace("\\", r"\\")
        out += [replacement[position : match.start()].replace("\\", r"\\"), quoted]
        position = match.end()
    return "".join([*out, replacement[position:].replace("\\", r"\\")])


def _parse_long(text: str, radix: Value = 10) -> Value:
    base = small(radix, "the radix")
    if not 2 <= base <= 36 or not re.fullmatch(r"[+-]?(?:0[xX])?[0-9a-zA-Z]+", text, re.ASCII) or len(text) > 70:
        return None
    try:
        number = int(text, base)
    except ValueError:
        return None
    return number if LONG_MIN <= number <= LONG_MAX else None


def _replace(text: str, old: str, new: str) -> str:
    # Of an empty text there is one before every character and one at the end.
    if (text.count(old) if old else len(text) + 1) * len(new) > TEXT_MOST:
        raise ExpressionFailed(f"a text of more than {TEXT_MOST} characters")
    return bounded(text.replace(old, new))


def _substring(text: str, index: Value, length: Value) -> Value:
    start, count = small(index, "the index"), small(length, "the length")
    if start < 0 or start > len(text):
        raise ExpressionFailed(f"position {start} is outside of a text of {len(text)} characters")
    return text[start:] if count < 0 else text[start : start + count]


def _side(right: bool) -> Callable[..., Value]:
    def cut(text: str, length: Value) -> Value:
        count = small(length, "the length")
        if count < 0:
            raise ExpressionFailed("a length must not be negative")
        return text[max(0, len(text) - count) :] if right else text[:count]

    return cut


def _pad(left: bool) -> Callable[..., Value]:
    def pad(text: str, length: Value, filling: Value = " ") -> Value:
        count, fill = small(length, "the length"), text_of(filling)
        if fill is None or count < 0:
            return None
        if count > TEXT_MOST:
            raise ExpressionFailed(f"a text of more than {TEXT_MOST} characters")
        missing = count - len(text)
        if missing <= 0 or not fill:
            return text[:count]
        padding = (fill * (missing // len(fill) + 1))[:missing]
        return padding + text if left else text + padding

    return pad


def _repeat(text: str, times: Value) -> Value:
    count = small(times, "the number of times")
    if count > 0 and len(text) * count > TEXT_MOST:
        raise ExpressionFailed(f"a text of more than {TEXT_MOST} characters")
    return text * count if count > 0 else None


def _strpos(haystack: str, needle: Value, start: Value = 0) -> Value:
    text = text_of(needle)
    return None if text is None else haystack.find(text, max(0, small(start, "the start")))


def _trim(how: Callable[[str, str], str]) -> Callable[..., Value]:
    def trim(text: str, characters: Value = " ") -> Value:
        chosen = text_of(characters)
        return None if chosen is None else (how(text, chosen) if chosen else text)

    return trim


def _decoded(text: str) -> Value:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        return None


def _readable(units: Sequence[str], step: int, suffix: str) -> Function:
    def apply(a: Sequence[Value]) -> Value:
        number, places = double_of(a[0]), small(a[1] if len(a) > 1 else 2, "the precision")
        if number is None:
            return None
        if not 0 <= places <= 3:
            raise ExpressionFailed("the precision is from 0 to 3")
        whole = long_of(a[0]) or 0
        size, unit = float(whole), 0
        while abs(size) >= step and unit < len(units) - 1:
            size, unit = size / step, unit + 1
        if unit == 0:
            return f"{whole}{suffix and ' ' + suffix}"
        return f"{size:.{places}f} {units[unit]}{suffix}"

    return apply


_FORMAT: Final = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


def _format(text: str, *arguments: Value) -> Value:
    """Java's ``String.format`` for the conversions that plain values have."""
    taken = 0

    def one(match: re.Match[str]) -> str:
        nonlocal taken
        index, flags, width, precision, conversion = match.groups()
        if conversion == "%":
            return "%"
        if conversion == "n":
            return "\n"
        at = int(index) - 1 if index else taken
        taken += 0 if index else 1
        if not 0 <= at < len(arguments):
            raise ExpressionFailed(f"format has no argument for {match[0]!r}")
        if int(width or 0) > TEXT_MOST or int(precision or 0) > 1_000:
            raise ExpressionFailed(f"a text of more than {TEXT_MOST} characters")
        return _spelt(arguments[at], flags, width or "", precision, conversion)

    return bounded(_FORMAT.sub(one, text))


def _spelt(value: Value, flags: str, width: str, precision: str | None, conversion: str) -> str:
    kind = conversion.lower()
    if value is None:
        out = "null"
    elif kind in "dxo":
        if not isinstance(value, int):
            raise ExpressionFailed(f"%{conversion} takes a whole number")
        out = format(value, ("," if "," in flags else "") + ("+" if "+" in flags else "") + kind)
    elif kind in "feg":
        if not isinstance(value, int | float):
            raise ExpressionFailed(f"%{conversion} takes a number")
        comma, sign = "," if "," in flags else "", "+" if "+" in flags else ""
        out = format(float(value), f"{sign}{comma}.{precision or 6}{kind}")
    elif kind == "b":
        out = "true" if value else "false"
    elif kind == "s":
        out = (text_of(value) or "")[: int(precision) if precision else None]
    else:
        raise ExpressionFailed(f"format does not know %{conversion}")
    if width:
        fill = out.zfill(int(width)) if "0" in flags and kind in "dxofeg" else out.rjust(int(width))
        out = out.ljust(int(width)) if "-" in flags else fill
    return out.upper() if conversion.isupper() else out


FUNCTIONS: Final[dict[str, Function]] = {
    "concat": _concat,
    "format": _on_text(_format),
    "like": _on_text(_like),
    "regexp_extract": _on_text(_extract),
    "regexp_like": _on_texts(lambda text, pattern: int(pattern_of(pattern).search(text) is not None)),
    "regexp_replace": _on_texts(_regexp_replace),
    "contains_string": _on_texts(lambda text, part: int(part in text)),
    "icontains_string": _on_texts(lambda text, part: int(part.lower() in text.lower())),
    "replace": _on_texts(_replace),
    "substring": _on_text(_substring),
    "left": _on_text(_side(right=False)),
    "right": _on_text(_side(right=True)),
    "strlen": _on_text(len),
    "strpos": _on_text(_strpos),
    "trim": _on_text(_trim(str.strip)),
    "ltrim": _on_text(_trim(str.lstrip)),
    "rtrim": _on_text(_trim(str.rstrip)),
    "lower": _on_text(str.lower),
    "upper": _on_text(str.upper),
    "reverse": _on_text(lambda text: text[::-1]),
    "repeat": _on_text(_repeat),
    "lpad": _on_text(_pad(left=True)),
    "rpad": _on_text(_pad(left=False)),
    "parse_long": _on_text(_parse_long),
    "decode_base64_utf8": _on_text(_decoded),
    "human_readable_binary_byte_format": _readable(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1024, "B"),
    "human_readable_decimal_byte_format": _readable(("", "K", "M", "G", "T", "P", "E"), 1000, "B"),
    "human_readable_decimal_format": _readable(("", "K", "M", "G", "T", "P", "E"), 1000, ""),
}
