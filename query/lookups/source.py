"""The port through which a query node sees what lookups are posted, and databases that some are read from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from query.lookups.spec import TableSource


@dataclass(frozen=True, slots=True)
class LookupSet:
    """The lookups that are posted, by name, as they were posted; ``change`` grows with every change of them."""

    change: int
    configurations: dict[str, Any]


class LookupSource(Protocol):
    """Where lookups are posted, and the databases that some of them are read from; safe from any thread."""

    def lookups(self, since: int | None) -> LookupSet | None:
        """All of them; None when nothing changed after the change ``since``."""
        ...

    def table_version(self, source: TableSource) -> str:
        """Changes when a table's pairs may have; empty when it has no column to tell by.

        Raises:
            ServiceError: the database does not answer, or has no such table.
        """
        ...

    def table_pairs(self, source: TableSource) -> Iterator[tuple[str, str]]:
        """The pairs of a table of a database; raises as ``table_version``."""
        ...


class NoLookups:
    """No lookup is posted."""

    def lookups(self, since: int | None) -> LookupSet | None:
        """None at all."""
        return None if since is not None else LookupSet(0, {})

    def table_version(self, source: TableSource) -> str:
        """Never asked."""
        raise NotImplementedError

    def table_pairs(self, source: TableSource) -> Iterator[tuple[str, str]]:
        """Never asked."""
        raise NotImplementedError
