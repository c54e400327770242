"""Reads the JSON paths of a flattenSpec, as Jayway's library for Java has them, and follows them (pure).

Names, indices, slices, unions, ``*``, ``..``, filters in ``[?(...)]`` and the functions that Druid documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ingest.spec.json_path_filter import Condition, holds, parse_condition
from ingest.spec.json_path_functions import FUNCTIONS, Function
from ingest.spec.json_path_program import first_output
from ingest.spec.json_path_tokens import UnsupportedPath, closing, unquoted

__all__ = [
    "Descend",
    "Matching",
    "Program",
    "Reduce",
    "Several",
    "Span",
    "Step",
    "UnsupportedPath",
    "follow",
    "parse_path",
]


@dataclass(frozen=True, slots=True)
class Descend:
    """``..``: the value itself and everything inside it."""


@dataclass(frozen=True, slots=True)
class Span:
    """``[start:end]`` of a list; negative ones count from the end."""

    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Several:
    """``[0, 2]`` or ``['a', 'b']``: each of them that is there."""

    steps: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    """``[?(...)]``: members of a list, or a single object, for which the condition holds."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Reduce:
    """A function at the end of a path, such as ``.length()``; ``arguments`` are JSON values or paths."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A jq program, which gives its first output."""

    text: str


Step = str | int | None | Descend | Span | Several | Matching | Reduce | Program
"""A field name, an index (negative from the end), None for "every element", or one of the classes above."""

_NAME: Final = re.compile(r"[^.\[\]()?*'\"\s@$,:][^.\[\]()?*'\"]*")
_INDICES: Final = re.compile(r"-?\d+(?:\s*,\s*-?\d+)*")
_SPAN: Final = re.compile(r"(-?\d+)?\s*:\s*(-?\d+)?")
_FILTERS_MOST: Final = 32
_CALL: Final = re.compile(r"\.(?P<name>[a-z]+)\(")


def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path that starts at the root.

    Raises:
        UnsupportedPath: with the part that could not be read.
    """
    if not text.startswith("$"):
        raise UnsupportedPath("a path starts with $")
    if text.count("?") > _FILTERS_MOST:
        raise UnsupportedPath(f"more than {_FILTERS_MOST} filters")
    steps: list[Step] = []
    position = 1
    while position < len(text):
        if steps and isinstance(steps[-1], Reduce):
            raise UnsupportedPath(f"nothing follows a function, but here {text[position:]!r} does")
        position = _step(text, position, steps)
    if steps and isinstance(steps[-1], Descend):
        raise UnsupportedPath("a path does not end with ..")
    return tuple(steps)


def _step(text: str, position: int, steps: list[Step]) -> int:
    """Reads one step into ``steps`` and returns where the next begins."""
    call = _CALL.match(text, position)
    if call is not None and call["name"] in FUNCTIONS:
        end = closing(text, call.end() - 1)
        steps.append(Reduce(call["name"], _arguments(text[call.end() : end])))
        return end + 1
    if text.startswith("..", position):
        steps.append(Descend())
        position += 2
        if text.startswith("[", position):
            return position
    elif text.startswith(".[", position):
        return position + 1
    elif text.startswith(".", position):
        position += 1
    elif text.startswith("[", position):
        end = closing(text, position)
        steps.append(_bracket(text[position + 1 : end].strip()))
        return end + 1
    if text.startswith("*", position):
        steps.append(None)
        return position + 1
    match = _NAME.match(text, position)
    if match is None:
        raise UnsupportedPath(f"cannot read {text[position:]!r}")
    steps.append(match.group())
    return match.end()


def _bracket(inner: str) -> Step:
    if inner == "*":
        return None
    if inner.startswith("?"):
        body = inner[1:].strip()
        if not body.startswith("(") or closing(body, 0) != len(body) - 1:
            raise UnsupportedPath(f"a filter stands in [?(...)], not {inner!r}")
        return Matching(parse_condition(body[1:-1], parse_path))
    if _INDICES.fullmatch(inner):
        indices = tuple(int(part) for part in inner.split(","))
        return indices[0] if len(indices) == 1 else Several(indices)
    span = _SPAN.fullmatch(inner)
    if span is not None:
        return Span(*(None if part is None else int(part) for part in span.groups()))
    names = unquoted(inner)
    if not names:
        raise UnsupportedPath(f"cannot read [{inner}]")
    return names[0] if len(names) == 1 else Several(names)


def _arguments(text: str) -> tuple[Any, ...]:
    arguments: list[Any] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        quoted = unquoted(part)
        if part.startswith("$"):
            arguments.append(parse_path(part))
        elif quoted:
            arguments.append(quoted[0])
        elif re.fullmatch(r"-?\d+(?:\.\d+)?", part):
            arguments.append(float(part) if "." in part else int(part))
        else:
            raise UnsupportedPath(f"cannot read the argument {part!r}")
    return tuple(arguments)


def is_program(steps: Sequence[Step]) -> bool:
    """Whether what ``follow`` finds may be a ``Failed``."""
    return any(isinstance(step, Program) for step in steps)


def follow(steps: Sequence[Step], value: Any) -> Any:
    """What the path finds in a parsed JSON value; None where it finds nothing, ``Failed`` where a program fails.

    A path that may find several values (with ``*``, ``..``, slices, unions or filters) finds the list of all.
    """
    root = value
    for at, step in enumerate(steps):
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        elif isinstance(step, int):
            value = value[step] if isinstance(value, list) and -len(value) <= step < len(value) else None
        elif isinstance(step, Reduce):
            return _reduced(step, value, root)
        elif isinstance(step, Program):
            value = first_output(step.text, value)
        else:
            return _follow_several(steps[at:], value, root)
        if value is None:
            # Some functions have a value for nothing.
            last = steps[-1]
            return _reduced(last, None, root) if isinstance(last, Reduce) else None
    return value


def _follow_several(steps: Sequence[Step], value: Any, root: Any) -> Any:
    if isinstance(steps[0], type(None)) and not isinstance(value, dict | list):
        return None
    last = steps[-1]
    function = last if isinstance(last, Reduce) else None
    found = [value]
    for step in steps[:-1] if function else steps:
        found = [inner for item in found for inner in _inside(step, item, root)]
    return found if function is None else _reduced(function, found, root)


def _reduced(step: Reduce, value: Any, root: Any) -> Any:
    arguments = [follow(item, root) if isinstance(item, tuple) else item for item in step.arguments]
    function: Function = FUNCTIONS[step.name]
    return function(value, arguments)


def _inside(step: Step, value: Any, root: Any) -> Iterator[Any]:
    """What one step finds in one value."""
    if step is None:
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif isinstance(step, Descend):
        yield from _everything(value)
    elif isinstance(step, Span):
        yield from value[step.start : step.end] if isinstance(value, list) else ()
    elif isinstance(step, Several):
        for one in step.steps:
            yield from _inside(one, value, root)
    elif isinstance(step, Matching):
        items = value if isinstance(value, list) else [value]
        yield from (item for item in items if holds(step.condition, item, root, follow))
    elif isinstance(step, str):
        if isinstance(value, dict) and step in value:
            yield value[step]
    elif isinstance(step, int) and isinstance(value, list) and -len(value) <= step < len(value):
        yield value[step]


def _everything(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        yield item
        inner = list(item.values()) if isinstance(item, dict) else item if isinstance(item, list) else []
        waiting.extend(reversed(inner))
