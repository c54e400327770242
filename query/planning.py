"""Plans huge statements in a process of their own: a list of 50,000 values keeps a planner busy for a second or two.

In the server's process that would hold up every other request; one other process is started for the first huge
statement, plans one at a time, and asks back for what it must know of tables.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog

from query import errors
from query.clock import Clock
from query.errors import QueryError, QueryTimeout, QueryUnavailable
from query.model import PlannedQuery, SqlRequest
from query.sql.catalogue import Catalogue

_log = structlog.get_logger(__name__)
HUGE_CHARS = 50_000
"""A statement as long as this takes an eighth of a second and more."""
LONGEST_MS = 60_000
ASKS = ("table_names", "table", "lookup_names", "has_lookup")
"""What a planner may ask a catalogue."""
_LOOK_S = 0.05
# As of a query's worker: nothing of the server's environment is a statement's business.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR")


class _Gone(Exception):
    """The process has ended."""


class HugePlanner:
    """Safe for many threads, which wait for each other."""

    def __init__(self, clock: Clock, nice: int = 0) -> None:
        """``nice``: how far its process stands back behind tasks."""
        self._clock = clock
        self._nice = nice
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def stop(self) -> None:
        """Ends the process; the next statement would start another."""
        with self._lock:
            self._end()

    def plan(self, request: SqlRequest, catalogue: Catalogue, now_ms: int, check: Callable[[], None]) -> PlannedQuery:
        """As ``query.sql.planner.plan``; ``check`` is called again and again, and may end it by raising.

        Raises:
            QueryError: the statement cannot be answered, took too long, or its planner died.
        """
        while not self._lock.acquire(timeout=_LOOK_S):
            check()
        try:
            return self._planned(request, catalogue, now_ms, check)
        except (_Gone, EOFError, OSError) as error:
            self._end()
            _log.warning("huge_statement_not_planned", characters=len(request.query), error=str(error))
            raise QueryUnavailable("the planner of huge statements ended; send the statement again") from error
        except QueryError:
            raise
        except BaseException:
            self._end()
            raise
        finally:
            self._lock.release()

    def _planned(
        self, request: SqlRequest, catalogue: Catalogue, now_ms: int, check: Callable[[], None]
    ) -> PlannedQuery:
        connection = self._started()
        connection.send((request, now_ms))
        until_ms = self._clock.monotonic_ms() + LONGEST_MS
        while True:
            try:
                heard = self._heard(connection, until_ms, check)
                if heard[0] == "asked":
                    connection.send(("told", _answered(catalogue, *heard[1:])))
                    continue
            except QueryError:
                # It would go on with what nobody waits for.
                self._end()
                raise
            if heard[0] == "failed":
                raise _error(*heard[1:])
            planned: PlannedQuery = heard[1]
            return planned

    def _heard(self, connection: Connection, until_ms: int, check: Callable[[], None]) -> tuple[Any, ...]:
        while not connection.poll(_LOOK_S):
            check()
            if self._process is None or self._process.poll() is not None:
                raise _Gone("no process")
            if self._clock.monotonic_ms() > until_ms:
                raise QueryTimeout(f"the statement could not be planned in {LONGEST_MS // 1000} seconds")
        heard: tuple[Any, ...] = connection.recv()
        return heard

    def _started(self) -> Connection:
        if self._connection is not None and self._process is not None and self._process.poll() is None:
            return self._connection
        self._end()
        ours, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "query.planning_worker", str(theirs.fileno()), str(self._nice)],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=environment,
                )
            except OSError:
                ours.close()
                raise
        self._connection = Connection(ours.detach())
        return self._connection

    def _end(self) -> None:
        """With the lock held."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None


def _answered(catalogue: Catalogue, name: str, arguments: tuple[str, ...]) -> object:
    if name not in ASKS:
        raise _Gone(f"asked for {name!r}")
    return getattr(catalogue, name)(*arguments)


def _error(name: str, message: str, context: dict[str, str]) -> QueryError:
    """The error that the other process raised."""
    kind = getattr(errors, name, QueryError)
    found: QueryError = kind.__new__(kind)
    QueryError.__init__(found, message, context)
    return found
