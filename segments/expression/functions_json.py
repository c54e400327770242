"""Functions of nested data: JSON values, and paths into them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from segments.expression.functions_choice import cast
from segments.expression.values import ExpressionFailed, Function, Value, from_json, json_text, text_of

_STEP: Final = re.compile(
    r"""\.?\[\s*(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<index>-?\d+))\s*\]\??
      | \.(?P<name>[^.\[\]?'"]+)\??
      | \."(?P<quoted>(?:[^"\\]|\\.)*)"\??""",
    re.VERBOSE,
)


@lru_cache(maxsize=500)
def steps_of(path: str) -> tuple[str | int, ...]:
    """The steps of ``$.a.b[0]['c']``, or of the same without the dollar, as in jq.

    Raises:
        ExpressionFailed: not such a path.
    """
    steps: list[str | int] = []
    position = 1 if path.startswith("$") else 0
    if path == ".":
        return ()
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ExpressionFailed(f"path {path[:100]!r} cannot be read from {path[position : position + 20]!r} on")
        position = match.end()
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            name = next(match[group] for group in ("name", "single", "double", "quoted") if match[group] is not None)
            steps.append(name if match["name"] is not None else re.sub(r"\\(.)", r"\1", name))
    return tuple(steps)


def find(value: Any, path: Value) -> Any:
    """What lies at the path; None where nothing does."""
    spelt = text_of(path)
    if spelt is None:
        return None
    for step in steps_of(spelt):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        elif isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def _value(a: Sequence[Value]) -> Value:
    found = from_json(find(a[0], a[1]))
    if isinstance(found, dict) or (isinstance(found, list) and any(isinstance(item, dict | list) for item in found)):
        return None
    if len(a) > 2 and found is not None:
        if isinstance(found, list) and not (text_of(a[2]) or "").upper().startswith("ARRAY"):
            return None
        return cast(found, text_of(a[2]) or "")
    return found


def _query(a: Sequence[Value]) -> Value:
    return find(a[0], a[1])


def _query_array(a: Sequence[Value]) -> Value:
    found = find(a[0], a[1])
    return found if found is None or isinstance(found, list) else [found]


def _keys(a: Sequence[Value]) -> Value:
    found = find(a[0], a[1])
    if isinstance(found, dict):
        return list(found)
    return [str(at) for at in range(len(found))] if isinstance(found, list) else None


def _paths(value: Any, path: str = "$") -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            plain = re.fullmatch(r"[^.\[\]'\"\s]+", name)
            yield from _paths(inner, f"{path}.{name}" if plain else f"{path}['{name}']")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _paths(inner, f"{path}[{at}]")
    elif value is not None or path != "$":
        yield path


def _object(a: Sequence[Value]) -> Value:
    if len(a) % 2:
        raise ExpressionFailed("json_object takes pairs of a name and a value")
    names = [text_of(name) for name in a[0::2]]
    if None in names:
        raise ExpressionFailed("json_object takes no null as a name")
    return {str(name): value for name, value in zip(names, a[1::2], strict=True)}


def _merge(a: Sequence[Value]) -> Value:
    merged: Any = None
    for at, part in enumerate(a):
        value = _parsed(part) if isinstance(part, str) else part
        merged = value if at == 0 else _merged(merged, value)
    return merged


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{name: _merged(one[name], value) if name in one else value for name, value in other.items()}}
    return one if other is None else other


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise ExpressionFailed(f"{text[:100]!r} is not JSON") from error


def _parse(a: Sequence[Value]) -> Value:
    return _parsed(a[0]) if isinstance(a[0], str) else a[0]


def _try_parse(a: Sequence[Value]) -> Value:
    try:
        return _parse(a)
    except ExpressionFailed:
        return None


FUNCTIONS: Final[dict[str, Function]] = {
    "json_value": _value,
    "json_query": _query,
    "json_query_array": _query_array,
    "json_keys": _keys,
    "json_paths": lambda a: list(_paths(a[0])),
    "json_object": _object,
    "json_merge": _merge,
    "parse_json": _parse,
    "try_parse_json": _try_parse,
    "to_json_string": lambda a: None if a[0] is None else json_text(a[0]),
}
