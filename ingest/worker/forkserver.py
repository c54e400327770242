"""The forkserver: one process with the task's imports loaded that forks a task in milliseconds.

A fresh interpreter needs one to two seconds of imports; a fork of this one needs about ten
milliseconds and shares its pages. Only modules are preloaded: clients, thread pools and engines do
not survive a fork, so a task makes its own. The server is single-threaded for the same reason.

A task is forked into a session of its own with nothing inherited but its log, so neither the death
of this process nor that of the middle manager reaches it. The server ends when its socket closes.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ingest.task.directory import AttemptDirectory

MESSAGE_BYTES_MAX = 1 << 16


def entry_point(name: str) -> Callable[[Path], int]:
    """Resolves ``module:function``; importing the module is the preload."""
    module, _, function = name.partition(":")
    found: Callable[[Path], int] = getattr(importlib.import_module(module), function)
    return found


def detach(directory: AttemptDirectory) -> None:
    """Cuts the calling process loose: own session, output to the attempt's log, every other descriptor closed."""
    os.setsid()
    log = os.open(directory.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)


def run_task(entry: Callable[[Path], int], path: Path) -> int:
    """Runs one task to its end in the calling (forked) process; its exit code."""
    try:
        detach(AttemptDirectory(path))
        return entry(path)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:  # the top of a process: nothing may climb into the server's loop
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def reap(*_: object) -> None:
    """Takes the ended tasks in, so that their CPU time stays counted in this process's tree. That a task
    has ended is seen through its pidfd, not here."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # none is left


def serve(requests: socket.socket, entry: Callable[[Path], int]) -> None:
    """Forks one task per request until the socket closes."""
    signal.signal(signal.SIGCHLD, reap)
    gc.collect()
    gc.freeze()
    requests.send(orjson.dumps({"ready": os.getpid()}))
    while message := requests.recv(MESSAGE_BYTES_MAX):
        path = Path(orjson.loads(message)["directory"])
        reply: dict[str, Any]
        try:
            pid = os.fork()
        except OSError as error:
            reply = {"error": str(error)}
        else:
            if pid == 0:
                os._exit(run_task(entry, path))
            reply = {"pid": pid}
        requests.send(orjson.dumps(reply))


def main() -> None:
    """``python -m ingest.worker.forkserver SOCKET_FD MODULE:FUNCTION``."""
    descriptor, name = sys.argv[1:3]
    # A Ctrl-C in the terminal is for the service, which then closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whoever started it may be gone by now: then nobody wants tasks.
    with socket.socket(fileno=int(descriptor)) as requests, suppress(ConnectionError):
        serve(requests, entry_point(name))


if __name__ == "__main__":
    main()
