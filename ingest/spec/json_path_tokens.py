"""Finds brackets and quoted names in the text of a JSON path (pure)."""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*(,|$)""")
_OPEN: Final = {"(": ")", "[": "]"}


class UnsupportedPath(ValueError):
    """The text is no path, or uses a part of JSONPath that is not built."""


def closing(text: str, opening: int) -> int:
    """The position of the bracket that closes the one at ``opening``; brackets in quotes do not count.

    Raises:
        UnsupportedPath: there is none.
    """
    stack: list[str] = []
    quote = ""
    position = opening
    while position < len(text):
        character = text[position]
        if quote:
            if character == "\\":
                position += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in _OPEN:
            stack.append(_OPEN[character])
        elif stack and character == stack[-1]:
            stack.pop()
            if not stack:
                return position
        position += 1
    raise UnsupportedPath(f"{text[opening]!r} is not closed in {text[opening:]!r}")


def unquoted(text: str) -> tuple[str, ...]:
    """The names of ``'a', 'b'``; none where the text is anything else."""
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _QUOTED.match(text, position)
        if match is None or (match[3] == "," and match.end() == len(text)):
            return ()
        names.append(re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2]))
        position = match.end()
    return tuple(names)
