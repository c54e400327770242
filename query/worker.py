"""The query worker: a process that runs one statement at a time in a sandboxed engine and streams the answer.

Started by ``query.engine`` as ``python -m query.worker``, with the descriptor of its socket, how nice it is and its
settings. It opens only files below its roots, loads no extension, sees no secrets, and ends with the process that
started it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

from query.priority import step_back

_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Runs until the socket is closed."""
    _die_with_parent()
    # A terminal's Ctrl-C goes to the whole group; the pool decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Before the engine is loaded, which takes as much of the processor as many queries: others may be running.
    step_back(int(sys.argv[2]))
    from query.answering import serve

    # A busy server's descriptors may be those by which the roots are going to be named.
    connection = socket.socket(fileno=os.dup(int(sys.argv[1])))
    os.close(int(sys.argv[1]))
    serve(connection, sys.argv[3])


if __name__ == "__main__":
    main()
