"""Starts task processes: from the forkserver (fast) or as a fresh interpreter (isolated)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import orjson
import structlog

from ingest.task.directory import AttemptDirectory
from ingest.worker.forkserver import MESSAGE_BYTES_MAX
from ingest.worker.ports import LaunchFailed

log = structlog.get_logger()

PRELOAD_TIMEOUT_S = 60.0
"""Imports on a cold disk and a loaded machine; one to two seconds otherwise."""
FORK_TIMEOUT_S = 10.0


class ForkserverLauncher:
    """Owns one forkserver and starts another when it dies. Safe from any thread; one launch at a time.

    ``entry`` is the task's ``module:function(path) -> exit code``. ``warm_up`` starts the server
    ahead of the first task.
    """

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._is_ready = False

    def warm_up(self) -> None:
        """Starts the forkserver without waiting for its imports."""
        with self._lock:
            if self._server is None or self._server.poll() is not None:
                self._start()

    def launch(self, directory: AttemptDirectory) -> int:
        with self._lock:
            if self._server is None or self._server.poll() is not None:
                self._start()
            try:
                return self._fork(directory)
            except (OSError, orjson.JSONDecodeError) as error:
                # Whether a process was started is unknown; the attempt's lock keeps a second one out.
                self._discard()
                raise LaunchFailed(f"the forkserver did not start {directory.path}: {error}") from error

    def reap(self, pid: int) -> None:
        """Nothing to do: the forkserver's children are reaped by the kernel."""

    def close(self) -> None:
        with self._lock:
            self._discard()

    def _start(self) -> None:
        self._discard()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "ingest.worker.forkserver", str(theirs.fileno()), self._entry]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        with theirs:
            self._server = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        self._requests, self._is_ready = ours, False
        log.info("forkserver started", pid=self._server.pid)

    def _fork(self, directory: AttemptDirectory) -> int:
        assert self._requests is not None
        if not self._is_ready:
            self._requests.settimeout(PRELOAD_TIMEOUT_S)
            self._receive()
            self._is_ready = True
        self._requests.settimeout(FORK_TIMEOUT_S)
        self._requests.send(orjson.dumps({"directory": str(directory.path)}))
        reply = self._receive()
        if "error" in reply:
            raise OSError(reply["error"])
        return int(reply["pid"])

    def _receive(self) -> dict[str, Any]:
        assert self._requests is not None
        message = self._requests.recv(MESSAGE_BYTES_MAX)
        if not message:
            raise ConnectionError("it ended; see its output above")
        reply: dict[str, Any] = orjson.loads(message)
        return reply

    def _discard(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._server is not None:
            self._server.terminate()
            self._server.wait()
            self._server = None


class CommandLauncher:
    """Starts each task as a command with the attempt's directory as its last argument."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    def warm_up(self) -> None:
        """Nothing to prepare: every task is a fresh interpreter."""

    def launch(self, directory: AttemptDirectory) -> int:
        try:
            with open(directory.log, "ab") as output:
                child = subprocess.Popen(
                    [*self._command, str(directory.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as error:
            raise LaunchFailed(f"{self._command[0]} did not start: {error}") from error
        with self._lock:
            self._children[child.pid] = child
        return child.pid

    def reap(self, pid: int) -> None:
        with self._lock:
            child = self._children.pop(pid, None)
        if child is not None:
            child.wait()

    def close(self) -> None:
        """Leaves the children alone: they are tasks."""
