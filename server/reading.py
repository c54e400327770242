"""Reads a JSON document that a command was given, by the reader that the service itself has; quick to import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import orjson

from segments.errors import ServiceError

LEVELS_MAX: Final = 150
"""Copies, checks and masks recur into what was posted; no spec and no query needs more."""


class Unreadable(ServiceError):
    """There is no JSON to judge; the message says where and why."""


def document_in(file: Path) -> Any:
    """The JSON value in a file, or on standard input for ``-``.

    Raises:
        Unreadable: there is no such file, or it is not JSON; the message begins with its name.
    """
    try:
        raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return orjson.loads(raw)
    except OSError as error:
        raise Unreadable(f"{file}: cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        if "depth limit" in str(error) or "ecursion" in str(error):
            raise Unreadable(f"{file}: not JSON: nested too deeply: at most {LEVELS_MAX} levels are read") from error
        raise Unreadable(f"{file}: not JSON: {error}") from error


def is_shallow(document: Any) -> bool:
    """Whether the values have at most ``LEVELS_MAX`` levels."""
    level = [document]
    for _ in range(LEVELS_MAX):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if not inner:
            return True
        level = inner
    return not any(isinstance(value, dict | list) for value in level)
