"""Reads the parameters that a JDBC client binds, and guesses them where a statement is only prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from query.errors import InvalidQuery
from query.model import SqlParameter
from segments.civil import format_iso_ms
from server.avatica.types import DAY_MS

Planned = TypeVar("Planned")


def _clock(value_ms: Any) -> str:
    """A clock's reading, which the zone of the query makes an instant."""
    return format_iso_ms(int(value_ms)).removesuffix("Z").replace("T", " ")


def _day(days: Any) -> str:
    return _clock(int(days) * DAY_MS)[:10]


_PLAIN: dict[str, tuple[str, Callable[[Any], object]]] = {
    **dict.fromkeys(("BYTE", "SHORT", "INTEGER", "LONG"), ("BIGINT", int)),
    **dict.fromkeys(("PRIMITIVE_BYTE", "PRIMITIVE_SHORT", "PRIMITIVE_INT", "PRIMITIVE_LONG"), ("BIGINT", int)),
    **dict.fromkeys(("FLOAT", "DOUBLE", "PRIMITIVE_FLOAT", "PRIMITIVE_DOUBLE"), ("DOUBLE", float)),
    **dict.fromkeys(("BOOLEAN", "PRIMITIVE_BOOLEAN"), ("BOOLEAN", bool)),
    **dict.fromkeys(("STRING", "CHARACTER", "PRIMITIVE_CHAR"), ("VARCHAR", str)),
    **dict.fromkeys(("JAVA_SQL_TIMESTAMP", "JAVA_UTIL_DATE"), ("TIMESTAMP", _clock)),
    "JAVA_SQL_DATE": ("DATE", _day),
}
# What a marker may stand for, the most harmless first: a statement that refuses one may need another.
_GUESSES = (
    SqlParameter("VARCHAR", None),
    SqlParameter("BIGINT", 1),
    SqlParameter("VARCHAR", "P1D"),
    SqlParameter("TIMESTAMP", "2000-01-01 00:00:00.000"),
)


def parameters_of(posted: Any) -> tuple[SqlParameter, ...]:
    """Avatica's typed values as parameters of a statement.

    Raises:
        InvalidQuery: one of a kind that SQL here does not have, or not bound at all.
    """
    if not isinstance(posted, list):
        return ()
    return tuple(_parameter(at, item) for at, item in enumerate(posted, 1))


def _parameter(at: int, item: Any) -> SqlParameter:
    if not isinstance(item, dict):
        raise InvalidQuery(f"parameter {at} is not set; bind every parameter before the statement runs")
    kind, value = str(item.get("type") or "NULL"), item.get("value")
    if value is None or kind == "NULL":
        return SqlParameter("VARCHAR", None)
    plain = _PLAIN.get(kind)
    if plain is not None:
        type_, read = plain
        try:
            return SqlParameter(type_, read(value))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidQuery(f"parameter {at}: {str(value)[:100]!r} is no {kind}") from error
    if kind in ("NUMBER", "BIG_DECIMAL", "BIG_INTEGER"):
        return _number(at, value)
    if kind == "ARRAY" and isinstance(value, list):
        return SqlParameter("ARRAY", [one.get("value") if isinstance(one, dict) else one for one in value])
    raise InvalidQuery(f"parameter {at} is a {kind}; numbers, texts, booleans, times and arrays can be bound")


def _number(at: int, value: Any) -> SqlParameter:
    text = str(value)
    try:
        return SqlParameter("BIGINT", int(text))
    except ValueError:
        pass
    try:
        return SqlParameter("DOUBLE", float(text))
    except ValueError as error:
        raise InvalidQuery(f"parameter {at}: {value!r} is not a number") from error


def planned_with_guesses(count: int, plan: Callable[[Sequence[SqlParameter]], Planned]) -> Planned:
    """The plan of a statement whose parameters nobody has bound yet.

    Raises:
        QueryError: of the first guess, if no guess makes the statement a statement.
    """
    first: InvalidQuery | None = None
    for guess in _GUESSES if count else _GUESSES[:1]:
        try:
            return plan((guess,) * count)
        except InvalidQuery as error:
            first = first or error
    assert first is not None
    raise first
