"""The engine of a query worker, shut against everything that a statement of ours does not need."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from query.binding import ArrowInput, Relation, RowInput
from query.kernels.offering import offered
from query.model import FunctionUse
from query.worker_memory import engine_bytes
from query.worker_steps import groups_of, joined
from query.worker_wire import ROOT_FD, Job, WorkerSettings, root_path

# What a statement may use as a table without naming a relation; the planner emits no other.
_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
_NARROW = frozenset({"BIGINT", "INTEGER", "DOUBLE", "FLOAT", "BOOLEAN", "HUGEINT", "TIMESTAMP WITH TIME ZONE", "DATE"})
warnings.filterwarnings("ignore", "Arrow output on a DB-API result")
_WIDE_ROWS, _WIDE_ROWS_MAX = 512, 2_048
"""Of a batch of texts as the engine converts it, however long they are: a quarter of those of its own vectors, or all
where columns are many, for a batch costs time by its columns. Small ones are put together."""
_WIDE_BYTES = 2 << 20
# Statements that were examined and found good, and how long one may be to be remembered.
_REMEMBERED, _REMEMBERED_CHARS = 256, 10_000


class Refused(Exception):
    """The statement is not one that a planner of ours makes."""


class Sandbox:
    """The engine with everything shut that a statement does not need; for the main thread, save ``interrupt``."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.batch_rows = settings.batch_rows
        self._mapped: dict[str, pa.Table] = {}
        self._by_key: dict[str, dict[str, str]] = {}
        self._good: OrderedDict[tuple[str, frozenset[str]], None] = OrderedDict()
        self._lock = threading.Lock()
        self._running: tuple[int, duckdb.DuckDBPyConnection] | None = None
        self._cancelled = 0
        for index, root in enumerate(settings.roots):
            descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            os.dup2(descriptor, ROOT_FD + index)
            os.close(descriptor)
        self._database = duckdb.connect(":memory:", config=_config(settings))
        roots = ", ".join(f"'{root_path(index)}/'" for index in range(len(settings.roots)))
        # The order matters: nothing can be changed after the last.
        for statement in (
            "SET GLOBAL TimeZone = 'UTC'",
            "SET GLOBAL parquet_metadata_cache = true",
            # Files never change under a name, so what is cached needs no second look.
            "SET GLOBAL validate_external_file_cache = 'NO_VALIDATION'",
            # Statistics say nothing about NaN; without this a filter loses NaN rows of files others wrote.
            "SET GLOBAL parquet_can_have_nan = true",
            f"SET GLOBAL allowed_directories = [{roots}]",
            "SET GLOBAL enable_external_access = false",
            "SET GLOBAL lock_configuration = true",
        ):
            self._database.execute(statement)

    def warm(self) -> None:
        """Does once what the first statement would wait for."""
        job = Job(-1, "SELECT x, s FROM (VALUES (1, 'a')) AS v(x, s) WHERE x > 0 ORDER BY s", ())
        for is_small in (False, True):
            list(self.run(replace(job, is_small=is_small)))

    def interrupt(self, number: int) -> None:
        """Stops the job of that number, also if it is about to begin; from any thread, returns when it is over."""
        with self._lock:
            self._cancelled = number
        # The engine forgets an interruption that comes just before it begins to execute: repeat it.
        while True:
            with self._lock:
                if self._running is None or self._running[0] != number:
                    return
                self._running[1].interrupt()
            time.sleep(0.01)

    def run(self, job: Job) -> Iterator[bytes | pa.Schema | pa.RecordBatch]:
        """What steps made, then the schema, then the batches of the answer.

        Raises:
            Refused: not a single SELECT, or one that reaches past its relations.
            duckdb.Error: the engine's.
        """
        # A connection of its own: whatever it made is gone with it.
        connection = self._database.cursor()
        with self._lock:
            self._running = (job.number, connection)
            is_cancelled = self._cancelled == job.number
        try:
            if is_cancelled:
                raise Refused("the query was cancelled before it began")
            # Checked by itself and before anything is offered, so that a refused statement opens no file.
            for step in job.steps:
                self._check_once(connection, step.sql, step.relations)
            self._check_once(connection, job.sql, job.relations)
            for relation in job.relations:
                self._offer(connection, relation)
            uses = [FunctionUse(one.name, one.path) for one in job.functions]
            with offered(self._database, uses, self._pairs):
                for step in job.steps:
                    # One after the other: what they read has the same names.
                    for relation in step.relations:
                        self._offer(connection, relation)
                    yield from groups_of(connection, step, job.groups_bytes)
                sql = joined(job.sql, job.relations)
                # A relation is bound when it is made and again when it is read; a result is bound once, but its rows
                # are held twice.
                begun: Any = connection.execute(sql) if job.is_small else connection.sql(sql)
                if job.is_small:
                    reader: pa.RecordBatchReader = begun.to_arrow_reader(self.batch_rows)
                    yield reader.schema
                    yield from reader
                else:
                    yield from _streamed(begun, self.batch_rows)
        finally:
            with self._lock:
                self._running = None
            connection.close()

    def _check_once(self, connection: duckdb.DuckDBPyConnection, sql: str, relations: Sequence[Relation]) -> None:
        """A statement that was found good over the same relations is good: dashboards ask the same all day."""
        if not sql:
            return
        known = (sql, frozenset(relation.name for relation in relations))
        if known in self._good:
            self._good.move_to_end(known)
            return
        _check(connection, *known)
        if len(sql) <= _REMEMBERED_CHARS:
            self._good[known] = None
            if len(self._good) > _REMEMBERED:
                self._good.popitem(last=False)

    def trim(self) -> None:
        """Lets go of mapped files that no longer exist, so that the disk gets their space back."""
        for path in [path for path in self._mapped if not os.path.exists(path)]:
            del self._mapped[path]
            self._by_key.pop(path, None)

    def _pairs(self, path: str) -> dict[str, str]:
        """The pairs of a lookup, whose file never changes under its name."""
        pairs = self._by_key.get(path)
        if pairs is None:
            table = self._mapped[path] = _map_file(path)
            cells = zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)
            pairs = self._by_key[path] = {str(key): str(value) for key, value in cells}
        return pairs

    def _offer(self, connection: duckdb.DuckDBPyConnection, relation: Relation) -> None:
        for source in relation.arrow:
            connection.register(source.name, self._map_chunks(source))
        for rows in relation.rows:
            connection.register(rows.name, _row_table(rows))

    def _map_chunks(self, source: ArrowInput) -> pa.Table:
        tables = []
        for path in source.paths:
            table = self._mapped.get(path)
            if table is None:
                table = self._mapped[path] = _map_file(path)
            tables.append(table.select(list(source.columns)))
        names = [f"k{place}" for place in range(len(source.columns))]
        return pa.concat_tables([table.rename_columns(names) for table in tables])


def _streamed(begun: duckdb.DuckDBPyRelation, batch_rows: int) -> Iterator[pa.Schema | pa.RecordBatch]:
    """The schema and the batches. Rows of texts are converted a few at a time, outside of what the engine counts."""
    is_wide = any(str(kind) not in _NARROW for kind in begun.types)
    wide_rows = min(_WIDE_ROWS * max(len(begun.types) // 16, 1), _WIDE_ROWS_MAX)
    reader = begun.to_arrow_reader(wide_rows if is_wide else batch_rows)
    yield reader.schema
    yield from _gathered(reader, batch_rows) if is_wide else reader


def _gathered(reader: pa.RecordBatchReader, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches put together to so many rows, or to as many as take some room."""
    held, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in reader:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= batch_rows or size >= _WIDE_BYTES:
            yield _one(held)
            held, rows, size = [], 0, 0
    if held:
        yield _one(held)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _check(connection: duckdb.DuckDBPyConnection, sql: str, relations: frozenset[str]) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise Refused("a query is one SELECT statement")
    serialized = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    tree = json.loads(serialized[0][0])
    if tree.get("error"):
        raise Refused(f"the statement cannot be examined: {tree.get('error_message', 'no tree')}")
    sources = list(_sources(tree))
    known = relations | {name for kind, name in sources if kind == "CTE"}
    for kind, name in sources:
        if kind == "TABLE_FUNCTION" and name.lower() not in _TABLE_FUNCTIONS:
            raise Refused(f"table function {name} is not allowed")
        if kind == "BASE_TABLE" and name not in known:
            raise Refused(f"table {name} is not one of the statement's relations")


def _config(settings: WorkerSettings) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "memory_limit": f"{engine_bytes(settings.memory_bytes)}B",
        "threads": str(settings.threads),
        "temp_directory": settings.temp_dir,
        "max_temp_directory_size": f"{settings.temp_bytes}B",
    }


def _sources(node: Any) -> Iterator[tuple[str, str]]:
    """Every table, table function and common table expression in a statement's tree, with its name."""
    if isinstance(node, dict):
        kind = node.get("type")
        if kind == "TABLE_FUNCTION":
            yield kind, str(node.get("function", {}).get("function_name"))
        elif kind == "BASE_TABLE":
            # A qualified name is never one of ours.
            path = [node.get("catalog_name"), node.get("schema_name"), node.get("table_name")]
            yield kind, ".".join(str(part) for part in path if part)
        for entry in node.get("cte_map", {}).get("map", ()):
            yield "CTE", str(entry.get("key"))
        for value in node.values():
            yield from _sources(value)
    elif isinstance(node, list):
        for value in node:
            yield from _sources(value)


def _map_file(path: str) -> pa.Table:
    source = pa.memory_map(path)
    if source.read(6) == b"ARROW1":
        source.seek(0)
        table = pa.ipc.open_file(source).read_all()
    else:
        source.seek(0)
        table = pa.ipc.open_stream(source).read_all()
    for index, field in enumerate(table.schema):
        if field.name == "__time" and field.type == pa.int64():
            time = table.column(index).cast(pa.timestamp("ms", "UTC"))
            table = table.set_column(index, field.name, time)
    return table


def _row_table(source: RowInput) -> pa.Table:
    return pa.ipc.open_stream(base64.b64decode(source.stream)).read_all()
