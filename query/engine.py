"""Runs statements in a pool of sandboxed worker processes, so that any one query can die alone.

One thread owns the processes: it starts them (the kernel ends a worker with the *thread* that started it),
stops queries whose time is over, and kills a worker that does not stop.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import structlog

from query.binding import Function, Relation
from query.clock import Clock
from query.errors import (
    InvalidQuery,
    QueryCancelled,
    QueryCapacityExceeded,
    QueryError,
    QueryFailed,
    QueryTimeout,
    QueryUnavailable,
    ResourceLimitExceeded,
)
from query.worker_wire import Job, Kind, WorkerSettings, encode_job, encode_settings, receive, send

_log = structlog.get_logger(__name__)
_TICK_S = 0.05
_TEMP_PREFIX = "query_temp_"
# Nothing of the server's environment (credentials, database addresses) is a query's business.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR")
_CAPACITY_ERRORS = ("OutOfMemoryException", "RowTooLarge")
# The statement met a value it cannot digest: a long that overflows, a text that is no JSON.
_STATEMENT_ERRORS = ("OutOfRangeException", "ConversionException")

_KERNEL_REFUSES = "while executing the UDF: ValueError: "


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """``workers`` processes of ``threads`` threads and ``memory_bytes`` each; ``temp_bytes`` bounds what one spills.

    ``queued`` queries at most wait for a worker. ``grace_ms`` after it was told to stop, a worker is killed.
    """

    workers: int = 2
    threads: int = 2
    memory_bytes: int = 1 << 30
    temp_bytes: int = 10 << 30
    queued: int = 100
    timeout_ms: int = 300_000
    grace_ms: int = 2_000


class _Worker:
    """One process and the pool's end of its socket."""

    def __init__(self, process: subprocess.Popen[bytes], connection: socket.socket, temp_dir: str) -> None:
        self.process = process
        self.connection = connection
        self._temp_dir = temp_dir
        self.ready = False
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

    def __init__(self, engine: Engine, worker: _Worker, job: Job, deadline_ms: int) -> None:
        self._engine = engine
        self._worker = worker
        self._number = job.number
        self.deadline_ms = deadline_ms
        self.stopped_at_ms: int | None = None
        self._reason: QueryError | None = None
        self._over = False
        # Held while the worker is told something, so that it cannot be another query's by then.
        self._lock = threading.Lock()
        self._on_close: list[Callable[[], None]] = []
        self.schema = pa.schema([])

    def begin(self, job: Job) -> None:
        """Hands the job over and waits for the schema of its answer.

        Raises:
            QueryError: it has no answer.
        """
        if not self._worker.ready:
            self._expect(receive(self._worker.connection), Kind.READY)
            self._worker.ready = True
        self._worker.send(Kind.JOB, encode_job(job))
        payload = self._expect(receive(self._worker.connection), Kind.SCHEMA)
        self.schema = pa.ipc.read_schema(pa.py_buffer(payload))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches as the worker makes them; the worker waits while nobody reads.

        Raises:
            QueryError: the answer ended before its end. What was read until then is not an answer.
        """
        while not self._over:
            frame = receive(self._worker.connection)
            if frame is not None and frame[0] is Kind.END and self._reason is None:
                self._finish(reusable=True)
                return
            yield pa.ipc.read_record_batch(pa.py_buffer(self._expect(frame, Kind.BATCH)), self.schema)

    def cancel(self, reason: QueryError | None = None) -> None:
        """Stops the query; its reader gets the reason as an error."""
        with self._lock:
            if not self._over and self._reason is None:
                self._reason = reason or QueryCancelled("the query was cancelled")
                self.stopped_at_ms = self._engine.clock.monotonic_ms()
                self._worker.send(Kind.CANCEL, str(self._number).encode())

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
        self._finish(reusable=frame is not None and frame[0] in (Kind.ERROR, Kind.END))
        if self._reason is not None:
            raise self._reason
        if frame is None:
            raise QueryUnavailable("the query's worker process died; the query may be repeated")
        raise _error_of(frame)

    def _finish(self, reusable: bool) -> None:
        with self._lock:
            was_over, self._over = self._over, True
        if not was_over:
            self._engine.give_back(self, self._worker, reusable)
            for callback in self._on_close:
                callback()


class Engine:
    """The pool; safe for many threads. ``roots`` are the folders from which a statement's files come."""

    def __init__(self, settings: EngineSettings, roots: Sequence[Path], temp_dir: Path, clock: Clock) -> None:
        self.clock = clock
        self._settings = settings
        self._roots = tuple(str(root) for root in roots)
        self._temp_dir = temp_dir
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._count = 0
        self._waiting = 0
        self._runs: set[Run] = set()
        self._numbers = itertools.count(1)
        self._stopping = False
        self._owner: threading.Thread | None = None

    def start(self) -> None:
        """Starts the workers in the background; the first query waits for the first of them."""
        for root in (*self._roots, str(self._temp_dir)):
            Path(root).mkdir(parents=True, exist_ok=True)
        for left in self._temp_dir.glob(_TEMP_PREFIX + "*"):
            shutil.rmtree(left, ignore_errors=True)
        self._owner = threading.Thread(target=self._own_processes, name="query-engine", daemon=True)
        self._owner.start()

    def stop(self) -> None:
        """Ends all queries and all workers."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for run in list(self._runs):
            run.cancel(QueryUnavailable("the query node is stopping"))
            run.kill()
        if self._owner is not None:
            self._owner.join()
        with self._changed:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.discard()

    def run(
        self,
        sql: str,
        relations: Sequence[Relation],
        timeout_ms: int = 0,
        started: Callable[[Run], None] = lambda run: None,
        functions: Sequence[Function] = (),
    ) -> Run:
        """Starts a statement; ``timeout_ms`` counts from now, waiting included (0: the default).

        ``started`` is called as soon as it can be cancelled.

        Raises:
            QueryCapacityExceeded: too many are waiting.
            QueryTimeout, QueryFailed, QueryUnavailable, ResourceLimitExceeded: it has no answer.
        """
        allowed_ms = min(timeout_ms or self._settings.timeout_ms, self._settings.timeout_ms)
        deadline_ms = self.clock.monotonic_ms() + allowed_ms
        job = Job(next(self._numbers), sql, tuple(relations), tuple(functions))
        worker = self._take_worker(deadline_ms)
        run = Run(self, worker, job, deadline_ms)
        with self._changed:
            self._runs.add(run)
            self._changed.notify_all()
        started(run)
        run.begin(job)
        return run

    def trim(self) -> None:
        """Tells idle workers to let go of files that have been removed."""
        with self._changed:
            for worker in self._idle:
                worker.send(Kind.TRIM)

    @property
    def running(self) -> int:
        """Queries that hold a worker now."""
        return len(self._runs)

    @property
    def waiting(self) -> int:
        """Queries that wait for a worker."""
        return self._waiting

    def runs(self) -> list[Run]:
        """The queries that hold a worker now."""
        with self._changed:
            return list(self._runs)

    def give_back(self, run: Run, worker: _Worker, reusable: bool) -> None:
        """Takes a worker back from its run."""
        with self._changed:
            self._runs.discard(run)
            keep = reusable and not self._stopping
            if keep:
                self._idle.append(worker)
            else:
                self._count -= 1
            self._changed.notify_all()
        if not keep:
            worker.discard()

    def _take_worker(self, deadline_ms: int) -> _Worker:
        while True:
            worker = self._wait_for_worker(deadline_ms)
            if worker.process.poll() is None:
                return worker
            # It died while nobody used it.
            worker.discard()
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def _wait_for_worker(self, deadline_ms: int) -> _Worker:
        with self._changed:
            if not self._idle and self._waiting >= self._settings.queued:
                raise QueryCapacityExceeded(f"{self._waiting} queries are waiting for a worker already")
            self._waiting += 1
            try:
                while not self._idle and not self._stopping:
                    left_ms = deadline_ms - self.clock.monotonic_ms()
                    if left_ms <= 0:
                        raise QueryTimeout("the query's time was over before a worker was free")
                    self._changed.wait(min(left_ms / 1000, 1.0))
                if self._stopping:
                    raise QueryUnavailable("the query node is stopping")
                # The last one back has the chunks mapped that the next query most likely reads.
                self._idle.sort(key=lambda worker: worker.ready)
                return self._idle.pop()
            finally:
                self._waiting -= 1

    def _own_processes(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                missing = self._settings.workers - self._count
                self._count += missing
                if not missing:
                    self._changed.wait(_TICK_S if self._runs else None)
                runs = list(self._runs)
            started = [self._start_worker() for _ in range(missing)]
            with self._changed:
                self._idle.extend(started)
                self._changed.notify_all()
            self._stop_late(runs)

    def _stop_late(self, runs: Sequence[Run]) -> None:
        now_ms = self.clock.monotonic_ms()
        for run in runs:
            if run.stopped_at_ms is None and now_ms >= run.deadline_ms:
                run.cancel(QueryTimeout("the query did not end in its time"))
            elif run.stopped_at_ms is not None and now_ms >= run.stopped_at_ms + self._settings.grace_ms:
                run.kill()

    def _start_worker(self) -> _Worker:
        ours, theirs = socket.socketpair()
        temp_dir = tempfile.mkdtemp(prefix=_TEMP_PREFIX, dir=self._temp_dir)
        settings = WorkerSettings(
            self._roots, temp_dir, self._settings.memory_bytes, self._settings.temp_bytes, self._settings.threads
        )
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "query.worker", str(theirs.fileno()), encode_settings(settings)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        return _Worker(process, ours, temp_dir)


def _error_of(frame: tuple[Kind, bytes]) -> QueryError:
    if frame[0] is not Kind.ERROR:
        return QueryFailed(f"the query's worker sent {frame[0].name} out of turn")
    named = json.loads(frame[1])
    kind, message = str(named["kind"]), str(named["message"])
    context = {"engineError": kind}
    if kind in _CAPACITY_ERRORS:
        return ResourceLimitExceeded(f"the query needs more memory than it may have: {message}", context)
    if kind == "RecursionError" or "Max expression depth" in message:
        return InvalidQuery("the statement is nested too deeply", context)
    if _KERNEL_REFUSES in message:
        # A text that was decoded to a sketch and is none.
        return InvalidQuery(message.partition(_KERNEL_REFUSES)[2], context)
    if kind in _STATEMENT_ERRORS:
        return InvalidQuery(message, context)
    if kind in ("IOException", "FileNotFoundError", "ArrowInvalid"):
        return QueryUnavailable(f"a file of the table cannot be read: {message}", context)
    return QueryFailed(message, context)
