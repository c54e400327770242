"""What a worker does for a statement before it runs: its relations in front of it, and groups of parts of its table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from query.binding import Relation
from query.worker_wire import BATCH_ROWS, Step, encode_groups

_OWN_TABLES = re.compile(r"\s*WITH(\s+RECURSIVE)?\s", re.IGNORECASE)


class GroupsTooLarge(Exception):
    """A step made more than is kept."""


def groups_of(connection: duckdb.DuckDBPyConnection, step: Step, most_bytes: int) -> Iterator[bytes]:
    """Offers the groups of a step to the statement, and gives what it made; what was kept is known."""
    if step.kept:
        connection.register(step.name, pa.ipc.open_stream(step.kept).read_all())
    if not step.sql:
        return
    made: Any = connection.execute(joined(step.sql, step.relations))
    reader: pa.RecordBatchReader = made.to_arrow_reader(BATCH_ROWS)
    batches, held_bytes = [], 0
    for batch in reader:
        batches.append(batch)
        held_bytes += batch.nbytes
        if held_bytes > most_bytes:
            # They are held twice, beyond the engine's own limit: the statement is better run on its rows.
            raise GroupsTooLarge(f"more than {most_bytes} bytes of groups")
    table = pa.Table.from_batches(batches, reader.schema)
    connection.register(step.name, table)
    if not step.is_told:
        return
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    yield encode_groups(step.name, sink.getvalue())


def joined(sql: str, relations: Sequence[Relation]) -> str:
    """The statement with its relations before it. Views would do as well, but each is bound to its files when it is
    made and again when it is used, which costs more than many a query.
    """
    if not relations:
        return sql
    # Not materialized: what a statement does not need of a relation must not be read.
    offered_ = [f'"{relation.name}" AS NOT MATERIALIZED ({relation.sql})' for relation in relations]
    own = _OWN_TABLES.match(sql)
    begin, rest = ("WITH", f" {sql}") if own is None else (own[0], f", {sql[own.end() :]}")
    return f"{begin} {', '.join(offered_)}{rest}"
