"""Reads the parts of a native query's JSON, each by name, and says by its path what is wrong with one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from query.errors import InvalidQuery, UnsupportedQuery, did_you_mean
from query.native.known_types import KNOWN_TYPES
from query.sql.term import LONG_MAX


@dataclass(frozen=True, slots=True)
class Part:
    """One JSON object of a query and the path to it, such as ``filter.fields[1]``. Members nobody reads are ignored."""

    value: dict[str, Any]
    path: str

    @property
    def type(self) -> str:
        """The member ``type``.

        Raises:
            InvalidQuery: it is missing.
        """
        return self.text("type")

    def at(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def get(self, *names: str) -> Any:
        """The first of these members that is there and not null."""
        return next((self.value[name] for name in names if self.value.get(name) is not None), None)

    def has(self, name: str) -> bool:
        """True when the member is there and not null."""
        return self.value.get(name) is not None

    def text(self, *names: str) -> str:
        """A text that must be there; the first of several spellings of its name."""
        found = self.get(*names)
        if not isinstance(found, str):
            raise InvalidQuery(f"{self.at(names[0])}: a text is needed (found {_shown(found)})")
        return found

    def text_or(self, default: str, *names: str) -> str:
        """A text, or the default."""
        return default if self.get(*names) is None else self.text(*names)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false, also as text."""
        found = self.get(name)
        if found is None:
            return default
        if str(found).lower() in ("true", "false"):
            return str(found).lower() == "true"
        raise InvalidQuery(f"{self.at(name)}: {_shown(found)} is neither true nor false")

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int | None:
        """A whole number, also as text; ``default`` when it is missing."""
        found = self.get(name)
        if found is None:
            return default
        try:
            number = int(str(found))
        except ValueError:
            number = least - 1
        if not least <= number <= LONG_MAX or isinstance(found, bool):
            raise InvalidQuery(f"{self.at(name)}: {_shown(found)} is not a whole number, {least} or more")
        return number

    def number(self, name: str, default: float) -> float:
        """A number, also as text."""
        found = self.get(name)
        try:
            number = default if found is None else float(found)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InvalidQuery(f"{self.at(name)}: {_shown(found)} is not a number")
        return number

    def items(self, *names: str) -> list[Any]:
        """A list, empty when it is missing."""
        found = self.get(*names)
        if found is None:
            return []
        if not isinstance(found, list):
            raise InvalidQuery(f"{self.at(names[0])}: a list is needed (found {_shown(found)})")
        return found

    def texts(self, *names: str) -> list[str]:
        """A list of texts."""
        found = self.items(*names)
        if not all(isinstance(item, str) for item in found):
            raise InvalidQuery(f"{self.at(names[0])}: a list of texts is needed (found {_shown(found)})")
        return found

    def part(self, name: str) -> Part:
        """An object that must be there."""
        return part_of(self.get(name), self.at(name))

    def parts(self, name: str) -> Iterator[Part]:
        """A list of objects."""
        for index, item in enumerate(self.items(name)):
            yield part_of(item, f"{self.at(name)}[{index}]")

    def unknown_type(self, what: str) -> InvalidQuery:
        """The error for a type that nobody knows."""
        near = did_you_mean(self.type, KNOWN_TYPES.get(what, ()))
        return InvalidQuery(f"{self.at('type')}: {self.type!r} is not a type of {what}{near}")

    def unsupported(self, what: str) -> UnsupportedQuery:
        """The error for a type that is known and not built."""
        return UnsupportedQuery(f"{self.at('type')}: {what} {self.type!r} is not supported")


def part_of(value: Any, path: str) -> Part:
    """An object of a query.

    Raises:
        InvalidQuery: it is something else.
    """
    if not isinstance(value, dict):
        raise InvalidQuery(f"{path or 'the query'}: an object is needed (found {_shown(value)})")
    return Part(value, path)


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 100 else text[:100] + "..."
