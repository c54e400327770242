"""The port through which the planner sees which tables and columns there are, with a memory twin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from query.sql.types import VARCHAR, SqlType


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """One column by its exact name."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class TableDef:
    """One stored table; ``columns`` in the order of ``SELECT *``, ``__time`` first."""

    name: str
    columns: tuple[ColumnDef, ...]


LOOKUP_COLUMNS = (ColumnDef("k", VARCHAR), ColumnDef("v", VARCHAR))
"""What a lookup looks like as a table: keys, each once, and their values."""


class Catalogue(Protocol):
    """The stored tables and the lookups; safe from any thread.

    What it says must hold for the snapshot that is queried.
    """

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        ...

    def table(self, name: str) -> TableDef | None:
        """A table by its exact name; None when there is none."""
        ...

    def lookup_names(self) -> Sequence[str]:
        """Names of all lookups that can be used."""
        ...

    def has_lookup(self, name: str) -> bool:
        """Whether there is a lookup of that exact name."""
        ...


class MemoryCatalogue:
    """Tables held in a dict; ``lookups`` are pairs of key and value by the lookup's name."""

    def __init__(self, tables: Iterable[TableDef], lookups: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._tables = {table.name: table for table in tables}
        self.lookups = dict(lookups or {})

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        return list(self._tables)

    def table(self, name: str) -> TableDef | None:
        """A table by its exact name."""
        return self._tables.get(name)

    def lookup_names(self) -> Sequence[str]:
        """Names of all lookups."""
        return list(self.lookups)

    def has_lookup(self, name: str) -> bool:
        """Whether there is a lookup of that exact name."""
        return name in self.lookups
