"""The query worker: a process that runs one statement at a time in a sandboxed engine and streams the answer.

Started by ``query.engine`` as ``python -m query.worker``. It opens only files below its roots, loads no
extension, sees no settings and no secrets, and ends with the process that started it.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import queue
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from query.binding import ArrowInput, Relation, RowInput
from query.kernels.offering import offered
from query.model import FunctionUse
from query.priority import step_back
from query.worker_steps import groups_of, joined
from query.worker_wire import (
    ROOT_FD,
    Frames,
    Job,
    Kind,
    WorkerSettings,
    decode_job,
    decode_settings,
    receive,
    root_path,
    send,
)

_PR_SET_PDEATHSIG = 1
# What a statement may use as a table without naming a relation; the planner emits no other.
_TABLE_FUNCTIONS = frozenset({"unnest", "range", "generate_series"})
warnings.filterwarnings("ignore", "Arrow output on a DB-API result")
ROW_BYTES_MAX = 128 * 2**20
_PIECE_BYTES = 4 * 2**20
_UNCOUNTED_BYTES = 2 * 2**30
"""What a worker may hold beside the engine's memory; half of it is reserved by Arrow and hardly ever touched."""
# Statements that were examined and found good, and how long one may be to be remembered.
_REMEMBERED, _REMEMBERED_CHARS = 256, 10_000


_KINDS = {
    "Conversion Error": "ConversionException",
    "FATAL Error": "FatalException",
    "INTERNAL Error": "InternalException",
    "IO Error": "IOException",
    "INTERRUPT Error": "InterruptException",
    "Invalid Input Error": "InvalidInputException",
    "Out of Memory Error": "OutOfMemoryException",
    "Out of Range Error": "OutOfRangeException",
}


class RowTooLarge(Exception):
    """One row alone is more than the server would hold."""


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
                reader: pa.RecordBatchReader = begun.to_arrow_reader(self.batch_rows)
                yield reader.schema
                yield from reader
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
        "memory_limit": f"{settings.memory_bytes}B",
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


def _bound_memory(memory_bytes: int) -> None:
    """The engine counts its blocks, not the texts that functions make on their way: thousands of a few MiB each would
    take the machine's memory. Beyond this bound its allocations fail, which it tells as any lack of memory. Mapped
    files do not count.
    """
    bound = memory_bytes + _UNCOUNTED_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or hard > bound:
        resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _listen(connection: socket.socket, sandbox: Sandbox, jobs: queue.SimpleQueue[tuple[Kind, bytes]]) -> None:
    while True:
        frame = receive(connection)
        if frame is None:
            # The pool is gone or has given this worker up: nobody will read an answer.
            os._exit(0)
        kind, payload = frame
        if kind is Kind.CANCEL:
            sandbox.interrupt(int(payload))
        else:
            jobs.put((kind, payload))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of which the server can hold many, however long its texts are."""
    if batch.nbytes <= _PIECE_BYTES or (batch.num_rows <= 1 and batch.nbytes <= ROW_BYTES_MAX):
        yield batch
    elif batch.num_rows <= 1:
        raise RowTooLarge(f"a row of the answer has {batch.nbytes} bytes; at most {ROW_BYTES_MAX} are sent")
    else:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))


def _kind_of(error: Exception) -> str:
    """The engine's name of an error. One that comes after the first rows went through a reader that knows only its
    text, which begins with what it is."""
    if isinstance(error, OSError):
        return _KINDS.get(str(error).partition(":")[0], type(error).__name__)
    return type(error).__name__


def _answer(connection: socket.socket, sandbox: Sandbox, job: Job) -> None:
    frames = Frames(connection)
    try:
        for part in sandbox.run(job):
            if isinstance(part, bytes):
                frames.add(Kind.GROUPS, part)
                continue
            kind = Kind.SCHEMA if isinstance(part, pa.Schema) else Kind.BATCH
            for piece in _pieces(part) if isinstance(part, pa.RecordBatch) else (part,):
                frames.add(kind, memoryview(piece.serialize()))
            if isinstance(part, pa.RecordBatch) and part.num_rows >= sandbox.batch_rows:
                # There may be more, and it may take its time; a batch that is not full is the last.
                frames.flush()
        frames.add(Kind.END)
    except Exception as error:
        # Whatever went wrong, the pool must hear of it; this process is good for the next job.
        named = {"kind": _kind_of(error), "message": str(error)}
        frames.drop()
        frames.add(Kind.ERROR, json.dumps(named).encode())
    frames.flush()


def main() -> None:
    """Runs until the socket, whose descriptor is the first argument, is closed."""
    _die_with_parent()
    # A terminal's Ctrl-C goes to the whole group; the pool decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A busy server's descriptors may be those by which the roots are going to be named.
    connection = socket.socket(fileno=os.dup(int(sys.argv[1])))
    os.close(int(sys.argv[1]))
    settings = decode_settings(sys.argv[2])
    step_back(settings.nice)
    _bound_memory(settings.memory_bytes)
    sandbox = Sandbox(settings)
    jobs: queue.SimpleQueue[tuple[Kind, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, sandbox, jobs), daemon=True).start()
    send(connection, Kind.READY)
    while True:
        kind, payload = jobs.get()
        if kind is Kind.TRIM:
            sandbox.trim()
        elif kind is Kind.JOB:
            try:
                _answer(connection, sandbox, decode_job(payload))
            except ConnectionError:
                os._exit(0)


if __name__ == "__main__":
    main()
