"""Gives up a PostgreSQL session that stays silent: the driver alone would wait for an answer for ever.

The server's own time-outs end a statement that takes too long, TCP's end a peer that is gone. Neither sees an
answer that was lost on the way, or a server that stands still while its kernel keeps the connection alive.
"""

from __future__ import annotations

import select
from typing import Any

import psycopg2
from psycopg2 import extensions

from ingest.clock import SystemClock

_CLOCK = SystemClock()

READ_SILENCE_S = 120.0
"""The longest pause before or between the rows of a read; ten million of them may be sorted first."""

_EVENTS = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}


class PatientConnection(extensions.connection):  # type: ignore[misc]  # the driver has no types
    """A session whose every wait ends ``silence_s`` after the last byte (None: never). For one thread at a time.

    ``connect_s`` bounds the connecting as a whole.
    """

    silence_s: float | None = None
    connect_s: float = 10.0


def patient(silence_s: float, connect_s: float) -> type[PatientConnection]:
    """A connection factory for the driver, with these limits to begin with."""
    limits = {"silence_s": silence_s, "connect_s": connect_s}
    extensions.set_wait_callback(_wait)
    return type("PatientConnection", (PatientConnection,), limits)


def _wait(connection: Any) -> None:
    """The driver's wait callback, in the thread that asked. Sessions of other factories wait as ever.

    Raises:
        psycopg2.OperationalError: it was silent for too long; the driver closes the session.
    """
    connecting = connection.status == extensions.STATUS_SETUP
    limit_s = None
    if isinstance(connection, PatientConnection):
        limit_s = connection.connect_s if connecting else connection.silence_s
    since_ms = _CLOCK.monotonic_ms()
    state = connection.poll()
    while state != extensions.POLL_OK:
        left_s = None if limit_s is None else limit_s - (_CLOCK.monotonic_ms() - since_ms) / 1_000
        heard = _is_ready(connection, _EVENTS[state], left_s)
        # Looked at before it is given up: the answer may have come while this process stood still.
        if not heard and left_s is not None and left_s <= 0:
            raise psycopg2.OperationalError(f"timeout expired: not a word for {limit_s:.0f} s")
        if heard and not connecting:
            since_ms = _CLOCK.monotonic_ms()
        state = connection.poll()


def _is_ready(connection: Any, event: int, left_s: float | None) -> bool:
    poller = select.poll()  # select() takes no descriptor beyond 1,024
    poller.register(connection.fileno(), event)
    return bool(poller.poll(None if left_s is None else max(0, int(left_s * 1_000) + 1)))
