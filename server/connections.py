"""Bounds what a client costs before it has asked anything: how many connections there are, how long and how large
the head of a request may be, and how long its body may stay away."""

from __future__ import annotations

import asyncio
import resource
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 256 * 2**10
"""Of a request's line and headers; what a session saw of its tables takes up to 60,000."""
HEAD_S: Final = 75.0
"""How long a connection may take for them, from its beginning or from their first byte."""
BODY_S: Final = 75.0
"""How long nothing may come of a body that has not ended, while this process reads."""
FILES_WANTED: Final = 65_536
CONNECTIONS_MAX: Final = 10_000


def allow_open_files() -> int:
    """Raises how many files and sockets this process may have open as far as it may by itself; how many those are.

    Shells give 1,024 by habit, which that many idle clients would use up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return FILES_WANTED if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


class BoundedProtocol(HttpToolsProtocol):
    """One connection. ``most`` of them are served at once: the other half of the files is for everything else."""

    most: ClassVar[int] = CONNECTIONS_MAX
    head_s: ClassVar[float] = HEAD_S
    body_s: ClassVar[float] = BODY_S

    _head_bytes = 0
    _is_in_head = True
    _head_timer: asyncio.TimerHandle | None = None
    _body_timer: asyncio.TimerHandle | None = None
    _came_at = 0.0

    @classmethod
    def of(cls, open_files: int) -> type[BoundedProtocol]:
        """The protocol of a process that may have so many files open."""
        return type("Bounded", (cls,), {"most": min(open_files // 2, CONNECTIONS_MAX)})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # no pipe
        """Refuses one too many at once, so that none waits for a descriptor that others hold."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            self._refuse(b"503 Service Unavailable", f"{self.most} connections are open already; close idle ones")
            return
        self._head_timer = self.loop.call_later(self.head_s, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._end_timer()
        self._end_body()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts what comes before a request's head has ended."""
        if self.transport.is_closing():
            return
        was_in_head, self._came_at = self._is_in_head, self.loop.time()
        super().data_received(data)
        if was_in_head and self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                told = f"the request's line and headers are larger than {HEAD_BYTES} bytes"
                self._refuse(b"431 Request Header Fields Too Large", told)
        elif self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            # Empty lines between two requests: they begin none, and the server waits no longer for the next one.
            self._head_timer = self.loop.call_later(self.head_s, self._give_up)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._is_in_head, self._head_bytes = True, 0
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self._give_up)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._is_in_head = False
        self._end_timer()
        self._end_body()
        self._body_timer = self.loop.call_later(self.body_s, self._look_for_body)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """So is its body."""
        self._end_body()
        super().on_message_complete()

    def _look_for_body(self) -> None:
        # What is not read yet is not the client's fault.
        silent_s = 0.0 if self.flow.read_paused else self.loop.time() - self._came_at
        if silent_s >= self.body_s:
            self.transport.close()
            return
        self._body_timer = self.loop.call_later(self.body_s - silent_s, self._look_for_body)

    def _end_body(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _refuse(self, status: bytes, told: str) -> None:
        body = f'{{"error":"{told}"}}'.encode()
        head = b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()

    def _end_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
