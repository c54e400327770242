"""Lookups in the database: one row each, and a counter that tells whether any of them changed."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import lookup_rules
from ingest.metadata import tables as t
from ingest.metadata.records import LookupChange, LookupTiers
from ingest.metadata.sql_base import SqlBase, append_audit, insert, next_count


class SqlLookups(SqlBase):
    """``ingest.metadata.lookup_store.LookupStore``; the counter's row is the lock of a change."""

    def lookups(self, since: int | None) -> LookupTiers | None:
        kind, name = lookup_rules.COUNTER
        counted = sa.select(t.counters.c.value).where(t.counters.c.kind == kind, t.counters.c.name == name)

        def read(connection: Connection) -> LookupTiers | None:
            change = connection.execute(counted).scalar()
            if change is None or change == since:
                return None
            tiers: dict[str, dict[str, dict[str, object]]] = {}
            for row in connection.execute(sa.select(t.lookups).order_by(t.lookups.c.tier, t.lookups.c.name)):
                tiers.setdefault(row.tier, {})[row.name] = row.container
            return LookupTiers(int(change), tiers)

        return self._read(read)

    def change_lookups(self, change: LookupChange, now_ms: int) -> int:
        columns = t.lookups.c

        def write(connection: Connection) -> int:
            number = next_count(connection, *lookup_rules.COUNTER)
            for tier, name in change.removed:
                connection.execute(sa.delete(t.lookups).where(columns.tier == tier, columns.name == name))
            for tier, lookups in change.put.items():
                for name, container in lookups.items():
                    mine = sa.select(columns.container).where(columns.tier == tier, columns.name == name)
                    lookup_rules.check_replaces(tier, name, connection.execute(mine).scalar(), container)
                    fresh = {"container": container, "updated_ms": now_ms}
                    row = insert(connection, t.lookups).values(tier=tier, name=name, **fresh)
                    connection.execute(row.on_conflict_do_update(index_elements=["tier", "name"], set_=fresh))
            append_audit(connection, lookup_rules.audit_of_change(change, now_ms))
            return number

        return self._write(write)
