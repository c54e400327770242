"""The functions that may end a JSON path (pure)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from segments.coercion import BadValue, text_of

Function = Callable[[Any, list[Any]], Any]
"""Takes what the path found and the function's arguments."""


def _numbers(value: Any, arguments: list[Any]) -> list[float]:
    items = [*(value if isinstance(value, list) else []), *arguments]
    return [float(x) for x in items if isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < 1e308]


def _of_numbers(function: Callable[[list[float]], float]) -> Function:
    def apply(value: Any, arguments: list[Any]) -> float | None:
        numbers = _numbers(value, arguments)
        return function(numbers) if numbers else None

    return apply


def _deviation(numbers: list[float]) -> float:
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers))


def _length(value: Any, arguments: list[Any]) -> int | None:
    subject = arguments[0] if arguments else value
    return len(subject) if isinstance(subject, str | list | dict) else None


def _concat(value: Any, arguments: list[Any]) -> str | None:
    parts = [*(value if isinstance(value, list) else [value]), *arguments]
    try:
        texts = [text_of(part) for part in parts if part is not None and not isinstance(part, dict | list)]
    except BadValue:
        return None
    return "".join(text for text in texts if text is not None)


def _append(value: Any, arguments: list[Any]) -> Any:
    return [*value, *arguments] if isinstance(value, list) else value


FUNCTIONS: Final[dict[str, Function]] = {
    "min": _of_numbers(min),
    "max": _of_numbers(max),
    "avg": _of_numbers(lambda numbers: sum(numbers) / len(numbers)),
    "sum": _of_numbers(sum),
    "stddev": _of_numbers(_deviation),
    "length": _length,
    "size": _length,
    "keys": lambda value, arguments: list(value) if isinstance(value, dict) else None,
    "first": lambda value, arguments: value[0] if isinstance(value, list) and value else None,
    "last": lambda value, arguments: value[-1] if isinstance(value, list) and value else None,
    "concat": _concat,
    "append": _append,
}
