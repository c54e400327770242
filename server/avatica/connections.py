"""Keeps the connections of JDBC clients, bounded in number and in idle time, with their statements."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from ingest.clock import Clock
from query.model import ResultColumn
from segments.errors import ServiceError
from server.avatica.frames import Frames, StaticFrames

_log = structlog.get_logger(__name__)
_SECRETS = ("password", "user", "avatica_user", "avatica_password")
_SWEEP_S = 5.0


@dataclass(frozen=True, slots=True)
class AvaticaLimits:
    """``connections`` at once, ``statements`` of each, ``frame_rows`` in one answer. A connection that was silent
    for ``idle_ms`` is closed, and so are its statements; results that nobody fetched from for ``results_idle_ms``
    are ended, for they hold a query worker.
    """

    connections: int = 100
    statements: int = 16
    frame_rows: int = 5_000
    idle_ms: int = 300_000
    results_idle_ms: int = 60_000


class Refusal(ServiceError):
    """What a client asks for is not there or too much; the message says which bound."""


class NoSuchConnection(Refusal):
    """The connection was never opened here, or was closed: a driver opens it again by itself."""


@dataclass(slots=True)
class Statement:
    """``sql`` and ``columns`` are what it was prepared with; ``frames`` its results while there are any."""

    id: int
    sql: str | None = None
    columns: tuple[ResultColumn, ...] = ()
    frames: Frames | StaticFrames | None = None
    used_ms: int = 0
    ended: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether somebody reads its results now."""
        return self.frames is not None and self.frames.is_busy

    def end(self, why: str = "") -> None:
        """Gives its results up."""
        frames, self.frames = self.frames, None
        self.ended = why
        if frames is not None:
            frames.close()


@dataclass(slots=True)
class Connection:
    """``context`` is what its queries start from: the driver's properties, without secrets."""

    id: str
    context: dict[str, object]
    used_ms: int
    properties: dict[str, Any] = field(default_factory=dict)
    statements: dict[int, Statement] = field(default_factory=dict)


class Connections:
    """All connections of one process; safe from any thread. A thread of its own watches them while there are any."""

    def __init__(self, limits: AvaticaLimits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Connection] = {}
        self._numbers = itertools.count(1)
        self._wake = threading.Event()
        self._stopped = False
        self._sweeper: threading.Thread | None = None
        self.refusal = ""
        """Why nothing new is begun; what is open may be read out."""

    def __len__(self) -> int:
        return len(self._open)

    def open(self, name: str, properties: dict[str, Any]) -> None:
        """Opens a connection; opening it again, as a driver does after a lost reply, changes nothing.

        Raises:
            Refusal: too many are open.
        """
        context = {key: value for key, value in properties.items() if key.lower() not in _SECRETS}
        with self._lock:
            if name in self._open:
                return
            if len(self._open) >= self.limits.connections:
                raise Refusal(
                    f"too many connections: {len(self._open)} are open, at most {self.limits.connections} may be "
                    "(jdbc.connections_max)"
                )
            self._open[name] = Connection(name, context, self._clock.monotonic_ms())
            self._watch()

    def get(self, name: object) -> Connection:
        """A connection, used just now.

        Raises:
            NoSuchConnection: it is not open here.
        """
        with self._lock:
            found = self._open.get(str(name))
            if found is None:
                raise NoSuchConnection(f"connection {name} is not open: it was closed, idle for too long, or elsewhere")
            found.used_ms = self._clock.monotonic_ms()
            return found

    def close(self, name: object) -> None:
        """Closes a connection with all its statements, if it is open."""
        with self._lock:
            found = self._open.pop(str(name), None)
        if found is not None:
            _end_all(found.statements.values(), "")

    def create_statement(self, connection: Connection) -> Statement:
        """A new statement.

        Raises:
            Refusal: the connection has too many.
        """
        with self._lock:
            if len(connection.statements) >= self.limits.statements:
                raise Refusal(
                    f"too many statements: connection {connection.id} has {len(connection.statements)} open, at most "
                    f"{self.limits.statements} may be (jdbc.statements_max)"
                )
            statement = Statement(next(self._numbers), used_ms=self._clock.monotonic_ms())
            connection.statements[statement.id] = statement
            return statement

    def statement(self, connection: Connection, number: object) -> Statement | None:
        """A statement of a connection, used just now; None when it is closed or was never there."""
        with self._lock:
            found = connection.statements.get(number) if isinstance(number, int) else None
            if found is not None:
                found.used_ms = self._clock.monotonic_ms()
            return found

    def close_statement(self, connection: Connection, number: object) -> None:
        """Closes a statement, if it is open."""
        with self._lock:
            found = connection.statements.pop(number, None) if isinstance(number, int) else None
        if found is not None:
            found.end()

    def sweep(self) -> None:
        """Closes what was idle for too long."""
        now_ms = self._clock.monotonic_ms()
        limits = self.limits
        with self._lock:
            idle = [
                one
                for one in self._open.values()
                if now_ms - one.used_ms > limits.idle_ms and not any(s.is_busy for s in one.statements.values())
            ]
            for connection in idle:
                del self._open[connection.id]
            stale = [
                statement
                for connection in self._open.values()
                for statement in connection.statements.values()
                if statement.frames is not None
                and not statement.is_busy
                and now_ms - statement.used_ms > limits.results_idle_ms
            ]
        for connection in idle:
            _log.info("idle connection closed", connection=connection.id)
            _end_all(connection.statements.values(), "")
        _end_all(stale, f"nobody fetched from them for {limits.results_idle_ms // 1000} s")

    @property
    def open_results(self) -> int:
        """Statements whose results are not read out yet."""
        with self._lock:
            return sum(s.frames is not None for c in self._open.values() for s in c.statements.values())

    def end_results(self, why: str) -> None:
        """Ends all results that are not read out; who fetches from them is told why."""
        with self._lock:
            found = [s for c in self._open.values() for s in c.statements.values() if s.frames is not None]
        _end_all(found, why)

    def stop(self) -> None:
        """Closes everything."""
        with self._lock:
            self._stopped = True
            open_, self._open = list(self._open.values()), {}
            sweeper = self._sweeper
        self._wake.set()
        for connection in open_:
            _end_all(connection.statements.values(), "")
        if sweeper is not None:
            sweeper.join()

    def _watch(self) -> None:
        """With the lock held."""
        if self._sweeper is None and not self._stopped:
            self._sweeper = threading.Thread(target=self._sweep_on, name="avatica-sweep", daemon=True)
            self._sweeper.start()

    def _sweep_on(self) -> None:
        while True:
            self._wake.wait(_SWEEP_S)
            with self._lock:
                if self._stopped or not self._open:
                    self._sweeper = None
                    return
            try:
                self.sweep()
            except Exception:  # a thread that dies would leave idle results with their query workers for ever
                _log.exception("sweep broke")


def _end_all(statements: Iterable[Statement], why: str) -> None:
    for statement in list(statements):
        statement.end(why)
