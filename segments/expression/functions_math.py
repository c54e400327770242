"""Functions of numbers. As in Druid one that is given a text has no value, and IEEE 754 decides at the edges."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from segments.expression.operators import double_power, long_quotient
from segments.expression.values import ExpressionFailed, Function, Value, double_of, is_number, long_of


def _edgy(function: Callable[..., float]) -> Callable[..., float]:
    """Where Python raises, Java gives NaN or an infinity."""

    def apply(*numbers: float) -> float:
        try:
            return function(*numbers)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return apply


def _of_double(function: Callable[[float], float]) -> Function:
    safe = _edgy(function)

    def apply(a: Sequence[Value]) -> Value:
        number = double_of(a[0]) if is_number(a[0]) else None
        return None if number is None else safe(number)

    return apply


def _of_doubles(function: Callable[[float, float], float]) -> Function:
    safe = _edgy(function)

    def apply(a: Sequence[Value]) -> Value:
        if not is_number(a[0]) or not is_number(a[1]):
            return None
        return safe(double_of(a[0]), double_of(a[1]))

    return apply


def _keeping(of_longs: Callable[..., Any], of_doubles: Callable[..., Any]) -> Function:
    """Whole numbers stay whole where all arguments are."""

    def apply(a: Sequence[Value]) -> Value:
        if not all(is_number(value) for value in a):
            return None
        if all(isinstance(value, int) for value in a):
            return of_longs(*a)
        return of_doubles(*map(double_of, a))

    return apply


def _of_longs(function: Callable[..., int]) -> Function:
    """On 64 bits in two's complement."""

    def apply(a: Sequence[Value]) -> Value:
        if not all(is_number(value) for value in a):
            return None
        return signed(function(*(long_of(value) for value in a)))

    return apply


def signed(number: int) -> int:
    """The low 64 bits as a signed number."""
    low = number & (2**64 - 1)
    return low - 2**64 if low >= 2**63 else low


def _log(number: float) -> float:
    return -math.inf if number == 0 else math.log(number)


def _log10(number: float) -> float:
    return -math.inf if number == 0 else math.log10(number)


def _rounded(a: Sequence[Value]) -> Value:
    value, scale = a[0], a[1] if len(a) > 1 else None
    if not is_number(value):
        return None
    places = 0 if scale is None else long_of(scale) or 0
    if not -400 <= places <= 400:
        raise ExpressionFailed("round keeps up to 400 places")
    if isinstance(value, float) and not math.isfinite(value):
        # As Java does by way of a decimal number.
        return 0.0 if math.isnan(value) else math.copysign(1.7976931348623157e308, value)
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int), "what is not finite went above"
    if exponent >= -places:
        return value
    cut = exact.scaleb(places).to_integral_value(ROUND_HALF_UP).scaleb(-places)
    return int(cut) if isinstance(value, int) else float(cut)


def _sign(number: float) -> float:
    return number if number == 0 or math.isnan(number) else math.copysign(1.0, number)


def _safe_divide(a: Sequence[Value]) -> Value:
    if not is_number(a[0]) or not is_number(a[1]) or a[1] == 0:
        return None
    whole = isinstance(a[0], int) and isinstance(a[1], int)
    return long_quotient(a[0], a[1]) if whole else (double_of(a[0]) or 0.0) / (double_of(a[1]) or math.nan)


def _div(left: float, right: float) -> int:
    if right == 0:
        raise ExpressionFailed("division by zero")
    return long_of(left / right) or 0


def _exponent(number: float) -> int:
    bits = struct.unpack("<q", struct.pack("<d", number))[0]
    return int(bits >> 52 & 0x7FF) - 1023


def _scaled(number: float, power: float) -> float:
    return math.ldexp(number, max(-5_000, min(5_000, int(power))))


def _larger(left: float, right: float) -> float:
    return math.nan if math.isnan(left) or math.isnan(right) else max(left, right)


def _smaller(left: float, right: float) -> float:
    return math.nan if math.isnan(left) or math.isnan(right) else min(left, right)


def _arc_tangent(y: float, x: float) -> float:
    return math.atan2(y, x)


FUNCTIONS: Final[dict[str, Function]] = {
    **{
        name: _of_double(getattr(math, name))
        for name in ("acos", "asin", "atan", "cbrt", "cos", "cosh", "exp", "expm1", "log1p", "sin", "sinh", "sqrt")
    },
    "tan": _of_double(math.tan),
    "tanh": _of_double(math.tanh),
    "ulp": _of_double(math.ulp),
    "cot": _of_double(lambda x: math.cos(x) / math.sin(x) if math.sin(x) else math.copysign(math.inf, x)),
    "log": _of_double(_log),
    "log10": _of_double(_log10),
    "todegrees": _of_double(math.degrees),
    "toradians": _of_double(math.radians),
    "signum": _of_double(_sign),
    "ceil": _of_double(lambda x: float(math.ceil(x)) if math.isfinite(x) else x),
    "floor": _of_double(lambda x: float(math.floor(x)) if math.isfinite(x) else x),
    "rint": _of_double(lambda x: float(round(x)) if math.isfinite(x) else x),
    "nextup": _of_double(lambda x: math.nextafter(x, math.inf)),
    "atan2": _of_doubles(_arc_tangent),
    "copysign": _of_doubles(math.copysign),
    "hypot": _of_doubles(math.hypot),
    "nextafter": _of_doubles(math.nextafter),
    "pow": _of_doubles(double_power),
    "remainder": _of_doubles(math.remainder),
    "scalb": _of_doubles(_scaled),
    "abs": _keeping(abs, abs),
    "max": _keeping(max, _larger),
    "min": _keeping(min, _smaller),
    "div": _keeping(long_quotient, _div),
    "safe_divide": _safe_divide,
    "round": _rounded,
    "pi": lambda a: math.pi,
    "getexponent": lambda a: _exponent(double_of(a[0]) or 0.0) if is_number(a[0]) else None,
    "bitwiseand": _of_longs(lambda x, y: x & y),
    "bitwiseor": _of_longs(lambda x, y: x | y),
    "bitwisexor": _of_longs(lambda x, y: x ^ y),
    "bitwisecomplement": _of_longs(lambda x: ~x),
    "bitwiseshiftleft": _of_longs(lambda x, y: x << (y & 63)),
    "bitwiseshiftright": _of_longs(lambda x, y: x >> (y & 63)),
    "bitwiseconvertdoubletolongbits": lambda a: (
        struct.unpack("<q", struct.pack("<d", double_of(a[0])))[0] if is_number(a[0]) else None
    ),
    "bitwiseconvertlongbitstodouble": lambda a: (
        struct.unpack("<d", struct.pack("<q", long_of(a[0])))[0] if is_number(a[0]) else None
    ),
}
