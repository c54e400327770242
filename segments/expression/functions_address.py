"""Functions of internet addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, Final

from segments.expression.values import ExpressionFailed, Function, Value, is_number


def _address(value: Value) -> ipaddress.IPv4Address | None:
    try:
        if isinstance(value, int) and 0 <= value < 2**32:
            return ipaddress.IPv4Address(value)
        return ipaddress.IPv4Address(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _network(value: Value, kind: Any) -> Any:
    try:
        return kind(str(value), strict=False)
    except ValueError as error:
        raise ExpressionFailed(f"{value!r} is not a subnet such as 10.0.0.0/8") from error


def _match4(a: Sequence[Value]) -> Value:
    if a[0] is None:
        return 0
    address = _address(a[0])
    return int(address is not None and address in _network(a[1], ipaddress.IPv4Network))


def _match6(a: Sequence[Value]) -> Value:
    if not isinstance(a[0], str):
        return 0
    try:
        address = ipaddress.IPv6Address(a[0])
    except ValueError:
        return 0
    return int(address in _network(a[1], ipaddress.IPv6Network))


def _parse(a: Sequence[Value]) -> Value:
    address = _address(a[0])
    return None if address is None else int(address)


def _spell(a: Sequence[Value]) -> Value:
    value = int(a[0]) if is_number(a[0]) else a[0]
    address = _address(value)
    return None if address is None else str(address)


FUNCTIONS: Final[dict[str, Function]] = {
    "ipv4_match": _match4,
    "ipv4_parse": _parse,
    "ipv4_stringify": _spell,
    "ipv6_match": _match6,
}
