"""Lowers the priority of a query's own processes, so that tasks, which have rows to read, compute first."""

from __future__ import annotations

import contextlib
import os


def step_back(nice: int) -> None:
    """Lowers this process by ``nice`` (0 to 19; 0 changes nothing), for good, and makes it a session of its own.

    Where the kernel shares processors out among sessions, a process's own nice value counts only within its session,
    and tasks have theirs: there the session is lowered too.
    """
    if not nice:
        return
    with contextlib.suppress(OSError):
        os.setsid()
    with contextlib.suppress(OSError):
        os.nice(nice)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as group:
        group.write(str(nice))
