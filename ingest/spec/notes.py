"""Collects what is wrong and what is worth saying about a spec, with JSON paths, and reads blocks by pydantic."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ingest.errors import SpecProblem

PLACEHOLDER = "\x00"
"""Stands where a list's item was of a wrong type, which is noted; the rules then pass over it."""

Block = TypeVar("Block", bound=BaseModel)


class Notes:
    """Problems and warnings of one parse, in the order in which they were found."""

    def __init__(self) -> None:
        self.problems: list[SpecProblem] = []
        self.warnings: list[str] = []
        self._moved: dict[str, str] = {}

    def move(self, path: str, posted: str) -> None:
        """From now on what is noted at or below ``path`` is told where it was ``posted``."""
        self._moved[path] = posted

    def _told(self, text: str) -> str:
        for path, posted in self._moved.items():
            if text.startswith(path) and text[len(path) : len(path) + 1] in ("", ".", "[", " ", ":"):
                return posted + text[len(path) :]
        return text

    def problem(self, path: str, value: object, rule: str, cure: str) -> None:
        # A whole object may hold secrets, and so may anything found in place of the client's properties.
        if isinstance(value, dict | list) and value:
            value = "{...}" if isinstance(value, dict) else "[...]"
        elif path.endswith(".consumerProperties") and value is not None:
            value = "******"
        self.problems.append(SpecProblem(self._told(path), value, rule, cure))

    def refused(self, path: str, value: object, what: str, cure: str) -> None:
        """For parts of Druid's spec that would change the rows and are not built."""
        self.problem(path, value, f"{what} is not supported", cure)

    def warn(self, text: str) -> None:
        self.warnings.append(self._told(text))


def read_block(kind: type[Block], value: Any, path: str, notes: Notes) -> Block:
    """The block, with each value of a wrong type noted and left at its default: the rules still see the rest."""
    value = copy.deepcopy(value)
    noted: set[tuple[str | int, ...]] = set()
    # Each round takes at least one faulty value out, so this ends.
    while True:
        try:
            block = kind.model_validate(value)
        except ValidationError as error:
            at_root = False
            for fault in error.errors(include_url=False):
                location = _without_union_tags(value, fault["loc"])
                if location not in noted:
                    where = path + _spelt(location)
                    notes.problem(where, fault.get("input"), _rule(fault), "correct the value or leave the field out")
                noted.add(location)
                at_root = at_root or not location
                _remove(value, location)
            if at_root:
                return kind.model_construct()
        else:
            for where, name, known in _unknown(block):
                near = difflib.get_close_matches(name, known, 1, 0.75)
                guess = f"; did you mean {near[0]}?" if near else ""
                notes.warn(f"{path}{where}.{name} is not known and has no effect{guess}")
            return block


def _rule(fault: Any) -> str:
    text = str(fault["msg"])
    return text.removeprefix("Value error, ")[0].lower() + text.removeprefix("Value error, ")[1:]


def _spelt(location: tuple[str | int, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def _without_union_tags(value: Any, location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Only the steps that exist in the JSON; pydantic adds names of validators."""
    kept: list[str | int] = []
    for step in location:
        if isinstance(value, list):
            exists = isinstance(step, int) and step < len(value)
        else:
            exists = isinstance(value, dict) and step in value
        if exists:
            value = value[step]
            kept.append(step)
    return tuple(kept)


def _remove(value: Any, location: tuple[str | int, ...]) -> None:
    if not location:
        return
    for step in location[:-1]:
        value = value[step] if not isinstance(value, dict) else value.get(step)
        if value is None:
            return
    last = location[-1]
    if isinstance(value, dict):
        value.pop(last, None)
    elif isinstance(value, list) and isinstance(last, int) and last < len(value):
        # The place is kept so that later indices still say where they stand: first as a text, then as an object.
        if value[last] == {}:
            del value[last]
        else:
            value[last] = {} if value[last] == PLACEHOLDER else PLACEHOLDER


def _unknown(block: BaseModel, where: str = "") -> Iterator[tuple[str, str, list[str]]]:
    known = [field.alias or name for name, field in type(block).model_fields.items()]
    for name in block.model_extra or {}:
        yield where, name, known
    for field_name, field in type(block).model_fields.items():
        inner, path = getattr(block, field_name), f"{where}.{field.alias or field_name}"
        if isinstance(inner, BaseModel):
            yield from _unknown(inner, path)
        elif isinstance(inner, list):
            for at, item in enumerate(inner):
                if isinstance(item, BaseModel):
                    yield from _unknown(item, f"{path}[{at}]")
