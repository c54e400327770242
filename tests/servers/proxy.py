"""A TCP proxy that can hang, drop, refuse or slow a connection: a partition without root."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from tests.servers.process import free_ports


class Proxy:
    """Passes 127.0.0.1:`port` on to 127.0.0.1:``target_port`` until told otherwise. Any thread."""

    def __init__(self, target_port: int, listen_port: int | None = None) -> None:
        self.target = target_port
        self.port = listen_port or free_ports(1)[0]
        self.delay_s = 0.0
        self.answer: bytes | None = None
        """What every request gets instead of the server's answer; the connection ends with it."""
        self.answered = 0
        """How often it was given."""
        self.end_after: int | None = None
        """Bytes in one direction after which a connection ends, in the middle of whatever it carries."""
        self._passing = threading.Event()
        self._passing.set()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.open()

    def open(self) -> None:
        """Listens (again)."""
        self._server = socket.create_server(("127.0.0.1", self.port))
        self._thread(self._accept, self._server)

    def _thread(self, what: object, *args: object) -> None:
        assert callable(what)
        threading.Thread(target=what, args=args, name="test-proxy", daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                cut = server.fileno() < 0
                if not cut:
                    self._pairs.append((near, far))
            if cut:  # while it was being made
                near.close()
                far.close()
                return
            self._thread(self._pump, near, far, True)
            self._thread(self._pump, far, near, False)

    def _lets_pass(self, data: bytes) -> bool:
        """Whether ``data`` goes on; the connection ends where it does not. For subclasses."""
        return True

    def _pump(self, source: socket.socket, sink: socket.socket, asks: bool) -> None:
        passed = 0
        try:
            while data := source.recv(65536):
                self._passing.wait()
                if not self._lets_pass(data):
                    break
                if self.delay_s:
                    time.sleep(self.delay_s)
                if asks and self.answer is not None:
                    self.answered += 1
                    source.sendall(self.answer)
                    break
                passed += len(data)
                if self.end_after is not None and passed > self.end_after:
                    sink.sendall(data[: max(0, len(data) - (passed - self.end_after))])
                    break
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._pairs = [pair for pair in self._pairs if source not in pair]
        source.close()
        sink.close()

    def hang(self) -> None:
        """Nothing passes and connections stay: what a network partition looks like."""
        self._passing.clear()

    def heal(self) -> None:
        """Ends `hang`, any delay, false answers and early ends."""
        self.delay_s = 0.0
        self.answer = None
        self.end_after = None
        self._passing.set()

    def cut(self) -> None:
        """Resets what is open and refuses what comes, until `open`."""
        with contextlib.suppress(OSError):  # cut before
            self._server.shutdown(socket.SHUT_RDWR)  # without it the blocked accept() keeps the port
        with self._lock:
            self._server.close()
            pairs, self._pairs = self._pairs, []
        for each in (each for pair in pairs for each in pair):
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                each.shutdown(socket.SHUT_RD)  # a recv() that waits would hold the connection open
            each.close()
        self._passing.set()

    def close(self) -> None:
        """The end of it."""
        self.cut()
