"""Decides what a JSON value becomes in a column of a given type: Druid's rules, with the differences the design states.

A value that its column cannot hold raises ``BadValue``; nothing is clamped, wrapped or rounded without
being said. Pure: no Arrow, so that both the reader of single rows and tests may use it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
_FLOAT32_MAX: Final = (2 - 2**-23) * 2.0**127
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}


class BadValue(ValueError):
    """The column cannot hold the value; the text says why, without the column's name."""


class Truncated(Exception):
    """A number with a fraction came to a long column; ``value`` is what Druid's cast leaves of it, or of the list."""

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__("the fraction was cut off")


def spelt(text: str) -> str:
    """The text with halves of surrogate pairs, which no file and no answer can hold, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def shown(value: Any) -> str:
    """The value for an error message: its JSON, cut at 100 characters; whatever it is, UTF-8 can spell it."""
    text = spelt(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 100 else text[:97] + "..."


def java_double(value: float) -> str:
    """A double as Java's ``Double.toString`` spells it, with the shortest digits that read back to it."""
    if not math.isfinite(value):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    scale = len(digits) + exponent - 1  # the decimal exponent of the first digit
    prefix = "-" if sign else ""
    if -3 <= scale < 7:
        if scale < 0:
            return f"{prefix}0.{'0' * (-scale - 1)}{text}"
        whole = text[: scale + 1].ljust(scale + 1, "0")
        return f"{prefix}{whole}.{text[scale + 1 :] or '0'}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{scale}"


def text_of(value: Any) -> str | None:
    """What a string column keeps of one value: a text as it is, an integer's digits, a fraction in Java's
    form, objects and nested lists as JSON.

    Raises:
        BadValue: the text holds half of a surrogate pair, which no file could store, or the number is
            beyond the range of doubles.
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        return "true" if value else "false"
    elif isinstance(value, int):
        return _digits(value)
    elif isinstance(value, float):
        if math.isinf(value):
            # JSON has no infinity: this was a number too large to read.
            raise BadValue("the number is beyond the range of doubles")
        return java_double(value)
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue("a text holds half of a surrogate pair") from error
    return text


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError as error:
        raise BadValue("a number has more digits than are read") from error


def long_of(value: Any) -> int | None:
    """A long dimension's value: whole numbers, also as text ("12", "12.0", "1e3"); true is 1.

    Raises:
        Truncated: a number with a fraction.
        BadValue: anything else, and everything beyond 64 bits.
    """
    if value is None:
        return None
    if isinstance(value, int):
        return _bounded(int(value), value)
    if isinstance(value, float):
        return _long_of_float(value)
    if isinstance(value, str):
        if not _DECIMAL.fullmatch(value):
            raise BadValue(f"{shown(value)} is not a whole number")
        number = _decimal(value)
        if number != number.to_integral_value():
            raise BadValue(f"{shown(value)} is not a whole number")
        return _bounded(int(number), value)
    raise BadValue(f"{shown(value)} is not a number")


def _long_of_float(value: float) -> int:
    if not math.isfinite(value):
        raise BadValue("the number is beyond 64 bits")
    whole = _bounded(int(value), value)
    if whole != value:
        raise Truncated(whole)
    return whole


def _bounded(number: int, value: Any) -> int:
    if not LONG_MIN <= number <= LONG_MAX:
        raise BadValue(f"{shown(value) if not isinstance(value, int) else 'the number'} is beyond 64 bits")
    return number


def _decimal(text: str) -> Decimal:
    """The exact number, or one safely beyond 64 bits; never one whose digits would fill the memory."""
    number = Decimal(text)
    if not number:
        return Decimal(0)
    if number.adjusted() > 20:
        return Decimal(10) ** 20
    return number if number.adjusted() > -400 else Decimal("0.1")


def double_of(value: Any) -> float | None:
    """A double dimension's value: numbers, also as text ("12", "1e3", "NaN"); booleans are not numbers.

    Raises:
        BadValue: anything else, and a JSON number beyond the range of doubles.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        raise BadValue(f"{shown(value)} is not a number")
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isinf(number):
            raise BadValue("the number is beyond the range of doubles")
        return number
    if isinstance(value, str):
        if value in _SPECIAL:
            return _SPECIAL[value]
        if _DECIMAL.fullmatch(value):
            return float(value)
    raise BadValue(f"{shown(value)} is not a number")


def float_of(value: Any) -> float | None:
    """As ``double_of``; a finite number beyond the range of 32-bit floats is bad."""
    number = double_of(value)
    if number is not None and math.isfinite(number) and abs(number) > _FLOAT32_MAX * (1 + 2**-25):
        raise BadValue(f"{shown(value)} is beyond the range of 32-bit floats")
    return number


def metric_long_of(value: Any) -> int | None:
    """A long aggregator's input: as ``long_of``, but a text is trimmed, may have thousands commas, and its
    fraction is cut off.

    Raises:
        Truncated, BadValue.
    """
    if not isinstance(value, str):
        return long_of(value)
    text = _loosely(value)
    if not _DECIMAL.fullmatch(text):
        raise BadValue(f"{shown(value)} is not a number")
    number = _decimal(text)
    whole = _bounded(int(number), value)
    if whole != number:
        raise Truncated(whole)
    return whole


def metric_double_of(value: Any) -> float | None:
    """A double aggregator's input: as ``double_of``, with the looser texts of ``metric_long_of``; true is 1."""
    if isinstance(value, bool):
        return float(value)
    return double_of(_loosely(value) if isinstance(value, str) else value)


def metric_float_of(value: Any) -> float | None:
    """A float aggregator's input, as ``metric_double_of``."""
    if isinstance(value, bool):
        return float(value)
    return float_of(_loosely(value) if isinstance(value, str) else value)


def _loosely(text: str) -> str:
    return text.strip().replace(",", "")


def several_texts(values: list[Any], *, ordered: bool = True, distinct: bool = False) -> str | list[str | None] | None:
    """A string column's value for a JSON list: one text for a single value, else all; an empty list is not null.

    ``ordered`` sorts with nulls first; ``distinct`` drops repetitions after sorting.

    Raises:
        BadValue: as ``text_of``.
    """
    texts = [text_of(value) for value in values]
    if ordered and len(texts) > 1:
        texts.sort(key=lambda text: (text is not None, text or ""))
        if distinct:
            texts = [text for at, text in enumerate(texts) if at == 0 or text != texts[at - 1]]
    return texts[0] if len(texts) == 1 else texts


Coercion = Callable[[Any], Any]
