"""Runs the jq programs of a flattenSpec, by the library of that name, which is loaded when the first one runs."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=200)
def compiled(program: str) -> Any:
    """The library's program.

    Raises:
        ModuleNotFoundError: the library is not installed.
        ValueError: the text is no program.
    """
    return importlib.import_module("jq").compile(program)


def first_output(program: str, value: Any) -> Any:
    """The first value that the program gives; None where it gives none, or fails."""
    try:
        return compiled(program).input_value(value).first()
    except (ValueError, StopIteration, RecursionError, OverflowError):
        return None
