"""A statement that runs in a worker process: its schema, its batches, and the ways to end it early."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from query.clock import Clock
from query.errors import (
    TOO_LONG,
    InvalidQuery,
    QueryCancelled,
    QueryError,
    QueryFailed,
    QueryUnavailable,
    ResourceLimitExceeded,
    UnsupportedQuery,
)
from query.lanes import Claim
from query.worker_wire import STARVED_CODE, TIRED, Job, Kind, decode_groups, encode_job, receive, send

_OUT_OF_MEMORY = "OutOfMemoryException"
_MEMORY_ERRORS = (_OUT_OF_MEMORY, "MemoryError", "ArrowMemoryError")
TOO_MANY_GROUPS = "GroupsTooLarge"
"""The engine's error where a step of a job made more than it may: its statement has to read all rows."""
_KERNEL_REFUSES = "while executing the UDF: ValueError: "
_KERNEL_STARVES = "while executing the UDF: MemoryError"
# Parts of the engine that have an allocation refused and an error of their own for it.
_REFUSED_MEMORY = ("memory allocation failed", "bad_alloc", "bad allocation", "Allocation failure", "malloc of size")
# The statement met a value it cannot digest: a long that overflows, a text that is no JSON.
_STATEMENT_ERRORS = ("OutOfRangeException", "ConversionException", "InvalidInputException", "SyntaxException")
# After a fault of its own an engine refuses every further statement.
_FATAL = ("InternalException", "FatalException")
_FILES = ".parquet"
_NO_MEMORY_CODES = (STARVED_CODE, -signal.SIGABRT)
_ENDS_S = 5.0


class Pool(Protocol):
    """Where a worker comes from and goes back to."""

    clock: Clock

    def give_back(self, run: Run, worker: Worker, reusable: bool) -> None:
        """Takes a worker back from its run."""
        ...


class Worker:
    """One process and the pool's end of its socket."""

    def __init__(
        self, process: subprocess.Popen[bytes], connection: socket.socket, temp_dir: str, memory_bytes: int = 0
    ) -> None:
        self.process = process
        self.connection = connection
        self._temp_dir = temp_dir
        self._memory_bytes = memory_bytes
        self.idle_since_ms = 0
        self.generation = 0
        self._send_lock = threading.Lock()

    def send(self, kind: Kind, payload: bytes = b"") -> None:
        with self._send_lock, contextlib.suppress(OSError):
            # A dead worker is noticed by whoever reads from it.
            send(self.connection, kind, payload)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def begun(self) -> bool:
        """Waits until it can take jobs; False when it ended before that."""
        frame = receive(self.connection)
        return frame is not None and frame[0] is Kind.READY

    def death(self) -> QueryError:
        """Why there is no answer from a worker that has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDS_S)
        if self.process.returncode in _NO_MEMORY_CODES:
            # What met a refused allocation could not go on, or not even say so.
            return _too_much_memory(self._memory_bytes, {"engineError": _OUT_OF_MEMORY})
        return QueryUnavailable("the query's worker process died; the query may be repeated")

    def discard(self) -> None:
        """Ends it and removes what it left."""
        self.kill()
        self.connection.close()
        shutil.rmtree(self._temp_dir, ignore_errors=True)


class Run:
    """A statement that is running: its schema, its batches, and the way to end it early.

    The batches are for one thread; ``cancel`` is for any. ``close`` gives the worker back, and must be
    called unless the batches were read to their end.
    """

    def __init__(self, pool: Pool, worker: Worker, job: Job, deadline_ms: int, is_long: bool = False) -> None:
        self.is_long = is_long
        self.begun_ms = pool.clock.monotonic_ms()
        self.told_bytes = 0
        self._pool = pool
        self._worker = worker
        self._number = job.number
        self.deadline_ms = deadline_ms
        self.stopped_at_ms: int | None = None
        self._reason: QueryError | None = None
        self._over = False
        # Held while the worker is told something, so that it cannot be another query's by then.
        self._lock = threading.Lock()
        self._on_close: list[Callable[[], None]] = []
        self._on_cancel: list[Callable[[], None]] = []
        self.schema = pa.schema([])
        self.groups: dict[str, bytes] = {}

    def begin(self, job: Job) -> None:
        """Hands the job over and waits for the schema of its answer; ``groups`` are then what its steps made.

        Raises:
            QueryError: it has no answer.
        """
        self._worker.send(Kind.JOB, encode_job(job))
        frame = receive(self._worker.connection)
        while frame is not None and frame[0] is Kind.GROUPS:
            name, groups = decode_groups(frame[1])
            self.groups[name] = groups
            frame = receive(self._worker.connection)
        payload = self._expect(frame, Kind.SCHEMA)
        self.schema = pa.ipc.read_schema(pa.py_buffer(payload))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches as the worker makes them; the worker waits while nobody reads.

        Raises:
            QueryError: the answer ended before its end. What was read until then is not an answer.
        """
        while not self._over:
            frame = receive(self._worker.connection)
            if frame is not None and frame[0] is Kind.END and self._reason is None:
                self._finish(_is_good(frame))
                return
            content = self._expect(frame, Kind.BATCH)
            self.told_bytes += len(content)
            yield pa.ipc.read_record_batch(pa.py_buffer(content), self.schema)

    def cancel(self, reason: QueryError | None = None) -> None:
        """Stops the query; its reader gets the reason as an error."""
        with self._lock:
            if self._over or self._reason is not None:
                return
            self._reason = reason or QueryCancelled("the query was cancelled")
            self.stopped_at_ms = self._pool.clock.monotonic_ms()
            self._worker.send(Kind.CANCEL, str(self._number).encode())
            told = list(self._on_cancel)
        for callback in told:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Calls back when somebody stops the query, from their thread; not of one that is stopped already."""
        with self._lock:
            self._on_cancel.append(callback)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Calls back once, when the worker no longer reads any file of this query."""
        self._on_close.append(callback)

    def close(self) -> None:
        """Ends the query wherever it stands and gives the worker back."""
        if self._over:
            return
        self.cancel()
        with contextlib.suppress(QueryError):
            while True:
                frame = receive(self._worker.connection)
                if frame is None or frame[0] in (Kind.END, Kind.ERROR):
                    self._expect(frame, Kind.SCHEMA)

    @property
    def is_cancelled(self) -> bool:
        """Whether it was stopped: what still comes is no answer."""
        return self._reason is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come from the worker."""
        return self._over

    @property
    def pid(self) -> int:
        """The process that works on it."""
        return self._worker.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether that process runs."""
        return self._worker.process.poll() is None

    def kill(self) -> None:
        """Ends the process; the reader sees it."""
        with self._lock:
            if not self._over:
                self._worker.kill()

    def _expect(self, frame: tuple[Kind, bytes] | None, kind: Kind) -> bytes:
        if frame is not None and frame[0] is kind:
            return frame[1]
        self._finish(_is_good(frame))
        if self._reason is not None:
            raise self._reason
        if frame is None:
            raise self._worker.death()
        raise _error_of(frame)

    def _finish(self, reusable: bool) -> None:
        with self._lock:
            was_over, self._over = self._over, True
        if not was_over:
            self._pool.give_back(self, self._worker, reusable)
            for callback in self._on_close:
                callback()


class Owner(Protocol):
    """Whose statement it is."""

    @property
    def claim(self) -> Claim:
        """How urgent and how long it is."""
        ...

    def started(self, run: Run) -> None:
        """It has a worker, and can be cancelled from now on."""
        ...

    def check(self) -> None:
        """Asked now and then before that; raises to end the wait."""
        ...


class _Nobody:
    """Does not care."""

    claim = Claim()

    def started(self, run: Run) -> None:
        """Nothing."""

    def check(self) -> None:
        """Nothing."""


NOBODY = _Nobody()


def _is_good(frame: tuple[Kind, bytes] | None) -> bool:
    """Whether a worker that ended a job so is one for the next."""
    if frame is None or frame[0] is not Kind.ERROR:
        return frame is not None and frame[0] is Kind.END and frame[1] != TIRED
    named = json.loads(frame[1])
    return named["kind"] not in _FATAL and not named.get("tired")


def _too_much_memory(limit_bytes: int, context: dict[str, str]) -> ResourceLimitExceeded:
    """The error of a query that has met the bound of its worker."""
    return ResourceLimitExceeded(
        f"the query needs more memory than the {limit_bytes} bytes that a query worker may have "
        "(query.memory_limit_bytes): ask of fewer rows, groups or columns or of shorter texts at once, or raise it",
        context,
    )


def _bound_met(
    named: dict[str, object], kind: str, message: str, context: dict[str, str]
) -> ResourceLimitExceeded | None:
    """The error of a query that needed more than it may have; None if it is another one."""
    is_refused = kind not in _STATEMENT_ERRORS and any(words in message for words in _REFUSED_MEMORY)
    if kind in _MEMORY_ERRORS or is_refused or _KERNEL_STARVES in message:
        return _too_much_memory(
            int(str(named.get("limit", 0))), context | {"engineMessage": message, "engineError": _OUT_OF_MEMORY}
        )
    if kind == "RowTooLarge" or TOO_LONG in message:
        return ResourceLimitExceeded(message, context)
    return None


def _error_of(frame: tuple[Kind, bytes]) -> QueryError:
    if frame[0] is not Kind.ERROR:
        return QueryFailed(f"the query's worker sent {frame[0].name} out of turn")
    named = json.loads(frame[1])
    # What follows a blank line is the engine's own text of the statement, or advice about its settings.
    kind, message = str(named["kind"]), str(named["message"]).partition("\n\n")[0]
    context = {"engineError": kind}
    bound = _bound_met(named, kind, message, context)
    if bound is not None:
        return bound
    if kind == "RecursionError" or "Max expression depth" in message:
        return InvalidQuery("the statement is nested too deeply", context)
    if _KERNEL_REFUSES in message:
        # A text that was decoded to a sketch and is none.
        return InvalidQuery(message.partition(_KERNEL_REFUSES)[2], context)
    if kind == "InvalidInputException" and _FILES in message:
        return QueryUnavailable(f"a file of the table cannot be read: {message}", context)
    if kind in _STATEMENT_ERRORS:
        return InvalidQuery(message, context)
    if kind in ("BinderException", "NotImplementedException"):
        # The statement was understood, and says more than the engine can do.
        return UnsupportedQuery(f"this is not supported: {message.partition(': ')[2]}", context)
    if kind in ("IOException", "FileNotFoundError", "ArrowInvalid"):
        return QueryUnavailable(f"a file of the table cannot be read: {message}", context)
    return QueryFailed(message, context)
