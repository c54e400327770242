"""The port through which the planner sees which tables and columns there are, with a memory twin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from query.sql.types import SqlType


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


class Catalogue(Protocol):
    """The stored tables; safe from any thread. What it says must hold for the snapshot that is queried."""

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        ...

    def table(self, name: str) -> TableDef | None:
        """A table by its exact name; None when there is none."""
        ...


class MemoryCatalogue:
    """Tables held in a dict."""

    def __init__(self, tables: Iterable[TableDef]) -> None:
        self._tables = {table.name: table for table in tables}

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        return list(self._tables)

    def table(self, name: str) -> TableDef | None:
        """A table by its exact name."""
        return self._tables.get(name)
