"""What the shapes of native answers share: objects from cells, and times as a granularity spells them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from query.native.granularity import Granularity
from query.native.plan import Setting


@dataclass(frozen=True, slots=True)
class Stamps:
    """How an answer tells times: in the granularity's zone, or as numbers when the context wants that."""

    granularity: Granularity
    as_long: bool = False

    @classmethod
    def of(cls, setting: Setting, granularity: Granularity) -> Stamps:
        """The times of a query's answer."""
        return cls(granularity, setting.context.flag("serializeDateTimeAsLong"))

    def json(self, time_ms: int) -> str:
        """A time as JSON."""
        return str(time_ms) if self.as_long else f'"{self.granularity.spelled(time_ms)}"'


def json_object(names: tuple[str, ...], cells: Sequence[str]) -> str:
    """An object from names and cells that are JSON already."""
    return "{" + ",".join([key + cell for key, cell in zip(_keys(names), cells, strict=True)]) + "}"


@lru_cache(maxsize=64)
def _keys(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names as they stand in every object of an answer."""
    return tuple(f"{json_text(name)}:" for name in names)


def json_text(text: str) -> str:
    """A text as JSON."""
    return json.dumps(text, ensure_ascii=False)
