"""Reads the JSON paths of a flattenSpec that name one place: ``$.a.b[1]['c d'][*]`` (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

Step = str | int | None
"""A field name, an index (negative from the end), or None for "every element"."""

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]()?*'"\s@$][^.\[\]()?*'"]*)
      | \.?\[\s*(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<index>-?\d+)|(?P<every>\*))\s*\]
      | \.(?P<star>\*)""",
    re.VERBOSE,
)


class UnsupportedPath(ValueError):
    """The text is no path, or uses a part of JSONPath that is not built (filters, functions, ``..``)."""


def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path that starts at the root.

    Raises:
        UnsupportedPath: with the part that could not be read.
    """
    if not text.startswith("$"):
        raise UnsupportedPath("a path starts with $")
    steps: list[Step] = []
    position = 1
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise UnsupportedPath(f"cannot read {text[position:]!r}")
        position = match.end()
        if match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["every"] is not None or match["star"] is not None:
            steps.append(None)
        else:
            quoted = match["single"] if match["single"] is not None else match["double"]
            steps.append(match["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
    return tuple(steps)


def follow(steps: Sequence[Step], value: Any) -> Any:
    """What the path finds in a parsed JSON value; None where it finds nothing.

    A path with "every element" finds the list of all matches, leaving out what is missing.
    """
    for at, step in enumerate(steps):
        if step is None:
            return _follow_every(steps[at + 1 :], value)
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        elif isinstance(value, list) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
        if value is None:
            return None
    return value


def _follow_every(rest: Sequence[Step], value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        items = list(value.values())
    elif isinstance(value, list):
        items = value
    else:
        return None
    if not rest:
        return items
    nested = None in rest
    found: list[Any] = []
    for item in items:
        result = follow(rest, item)
        if nested and isinstance(result, list):
            found.extend(result)
        elif result is not None:
            found.append(result)
    return found
