"""Lookups as a query node sees them: what is posted, by the metadata store, and databases they are read from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ingest.metadata import foreign
from ingest.metadata.store import MetadataStore
from query.lookups.source import LookupSet
from query.lookups.spec import TableSource

TIER = "__default"
"""The tier of every query node, by Druid's name. Lookups of other tiers are kept, and loaded by nobody."""


class StoreLookups:
    """``query.lookups.source.LookupSource``; safe from any thread. ``roots``: folders of SQLite files it may read."""

    def __init__(self, store: MetadataStore, roots: Sequence[Path]) -> None:
        self._store = store
        self._roots = tuple(roots)

    def lookups(self, since: int | None) -> LookupSet | None:
        found = self._store.lookups(since)
        return None if found is None else LookupSet(found.change, dict(found.tiers.get(TIER, {})))

    def table_version(self, source: TableSource) -> str:
        return foreign.newest_time(_foreign(source), self._roots)

    def table_pairs(self, source: TableSource) -> Iterator[tuple[str, str]]:
        return foreign.pairs(_foreign(source), self._roots)


def _foreign(source: TableSource) -> foreign.ForeignTable:
    password = source.password
    if isinstance(password, dict):
        variable = str(password["variable"])
        if variable not in os.environ:
            raise foreign.ForeignUnreadable(f"connectorConfig.password: the environment has no variable {variable!r}")
        password = os.environ[variable]
    return foreign.ForeignTable(
        source.url,
        source.user,
        password or "",
        source.table,
        source.key,
        source.value,
        source.time_column,
        source.filter,
    )
