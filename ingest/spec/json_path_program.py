"""Runs the jq programs of a flattenSpec, by the library of that name, which is loaded when the first one runs."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ingest.spec.jq_safety import bytes_allowed

_REASON_CHARS = 200


@dataclass(frozen=True, slots=True)
class Failed:
    """Stands in the place of a value that a program has not for this record: a bad value, and why."""

    reason: str


@lru_cache(maxsize=200)
def compiled(program: str) -> tuple[Any, int]:
    """The library's program, and the longest JSON text it is run over.

    Raises:
        ModuleNotFoundError: the library is not installed.
        ValueError: the text is no program, or one that is not run (UnsafeProgram).
    """
    allowed = bytes_allowed(program)
    return importlib.import_module("jq").compile(program), allowed


def first_output(program: str, value: Any) -> Any:
    """The first value that the program gives, None where it gives none, ``Failed`` where it fails for this value."""
    runs, most = compiled(program)
    try:
        text = json.dumps(value)
        if len(text) > most:
            return Failed(f"the object has {len(text)} bytes of JSON, and the program is run over {most} at most")
        return runs.input_text(text).first()
    except StopIteration:
        return None
    except (ValueError, RecursionError, OverflowError) as error:
        return Failed(f"jq: {str(error)[:_REASON_CHARS] or type(error).__name__}")
