"""Splits a grouping in two: the groups of any part of a table, and from those of all parts the answer (pure text).

So the groups of rows that do not change need to be made once: ``query.partials`` keeps them. What is split comes out
the same to the last bit, whatever the parts are: whole numbers that are counted and added up, least and greatest
values, different values as a set. Sums of doubles depend on the order of the addition, so with two threads each run has
other last bits, and groups have theirs. Estimates of sketches depend on how they were united by more than that:
statements with those read all rows each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from query.sql.types import Family, SqlType

GROUPS = "g_all"
"""What a final statement reads: the groups of all parts, by the names of ``Split.columns``."""
PARTS = "g_parts"
ALIAS = "p"
_KEY = "key"
_MERGES = {
    "count": "CAST(coalesce(sum({0}), 0) AS BIGINT)",
    "sum": "sum(CAST({0} AS HUGEINT))",
    "total": "sum({0})",
    "min": "min({0})",
    "max": "max({0})",
    "bit_and": "bit_and({0})",
    "bit_or": "bit_or({0})",
    "bit_xor": "bit_xor({0})",
}
_KEY_FAMILIES = (Family.STRING, Family.LONG, Family.DOUBLE, Family.TIME, Family.BOOLEAN)


class CannotSplit(Exception):
    """The statement has to read all its rows at once."""


@dataclass(frozen=True, slots=True)
class Split:
    """``partial_sql`` makes the groups of some rows of the statement's table, ``final_sql`` the answer of ``GROUPS``.

    ``columns`` are the groups' names, each with how it is merged. ``is_bounded``: the time bounds of the table are no
    condition in it, since a dashboard's window moves: its rows have to be within them.
    """

    partial_sql: str
    columns: tuple[tuple[str, str], ...]
    final_sql: str
    is_bounded: bool = False

    def of(self, source: str) -> str:
        """The groups of a relation that holds them as they were sent, in the types that they had when made."""
        cells = [f"CAST({name} AS HUGEINT) AS {name}" if kind == "sum" else name for name, kind in self.columns]
        return f"SELECT {', '.join(cells)} FROM {source}"

    @property
    def merge_sql(self) -> str:
        """Makes of the groups of several ``PARTS`` those of all their rows."""
        keys = [str(at) for at, (_, kind) in enumerate(self.columns, 1) if kind == _KEY]
        cells = [name if kind == _KEY else f"{_MERGES[kind].format(name)} AS {name}" for name, kind in self.columns]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(cells)} FROM {PARTS}{grouped}"


@dataclass(slots=True)
class Splitting:
    """Collects what a statement is split into while it is translated for the second time."""

    _cells: dict[str, tuple[str, str]] = field(default_factory=dict)
    _source: str = ""
    _counted: str = ""
    is_bounded: bool = False

    def key(self, sql: str, type_: SqlType) -> str:
        """What stands for a key after the grouping.

        Raises:
            CannotSplit: values of the type do not travel unchanged.
        """
        if type_.multi or type_.family not in _KEY_FAMILIES:
            raise CannotSplit(type_.name)
        return self._cell(f"CAST({sql} AS {type_.duckdb})", _KEY)

    def merged(self, kind: str, call: str) -> str:
        """What stands for an aggregate's call: the values of all parts in one.

        Raises:
            CannotSplit: they cannot be merged.
        """
        if kind not in _MERGES:
            raise CannotSplit(kind)
        return _MERGES[kind].format(self._cell(call, kind))

    def different(self, sql: str, type_: SqlType, suffix: str) -> str:
        """What counts different values: each is a key of its own in the parts. ``suffix`` is the call's FILTER.

        Raises:
            CannotSplit: other values are counted as well, so there would be a group for each pair of theirs.
        """
        if suffix:
            condition = suffix.removeprefix(" FILTER (WHERE ").removesuffix(")")
            sql = f"CASE WHEN {condition} THEN {sql} END"
        if self._counted not in ("", sql):
            raise CannotSplit(sql)
        self._counted = sql
        return f"count(DISTINCT {self.key(sql, type_)})"

    def read(self, source: str) -> str:
        """Notes what follows FROM in the parts, the same for all groupings; returns what does so at the end.

        Raises:
            CannotSplit: it is another.
        """
        if self._source not in ("", source):
            raise CannotSplit(source)
        self._source = source
        return f"{GROUPS} AS {ALIAS}"

    def grouped(self) -> str:
        """The final statement's GROUP BY, of the keys so far."""
        keys = [f"{ALIAS}.{name}" for name, kind in self._cells.values() if kind == _KEY]
        return f" GROUP BY {', '.join(keys)}" if keys else ""

    def split(self, final_sql: str) -> Split:
        """The statement in two, once ``final_sql`` is translated."""
        columns = tuple(self._cells.values())
        cells = ", ".join(f"{sql} AS {name}" for sql, (name, _) in self._cells.items())
        keys = [str(at) for at, (_, kind) in enumerate(columns, 1) if kind == _KEY]
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return Split(f"SELECT {cells} FROM {self._source}{grouped}", columns, final_sql, self.is_bounded)

    def _cell(self, sql: str, kind: str) -> str:
        name, known = self._cells.setdefault(sql, (f"{'k' if kind == _KEY else 'v'}{len(self._cells)}", kind))
        if known != kind:
            raise CannotSplit(sql)
        return f"{ALIAS}.{name}"
