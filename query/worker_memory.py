"""Keeps the whole memory of a query worker below its limit, whatever a statement makes.

The engine counts its blocks: tables, sorts, groups. It does not count the texts that functions make on their way, what
it converts for the answer, and the pages that its allocator keeps. So the engine gets a part of the limit; a thread
looks at the memory that the process really has and ends the statement when that nears the limit; and the kernel
refuses what comes between two looks. Pages of mapped files are not counted: the kernel takes them when it needs them.
"""

from __future__ import annotations

import ctypes
import os
import resource
import threading
import time
from collections.abc import Callable

import _duckdb

_OWN_BYTES = 48 << 20
"""What a worker has before it does anything: the interpreter, libraries, the engine."""
_PAGE_BYTES = resource.getpagesize()
_LOOK_S = 0.01
_REST_LOOKS = 100
_PURGE_ALL = b"arena.4096.purge"
"""Of jemalloc: the number stands for all of its arenas."""


def engine_bytes(limit_bytes: int) -> int:
    """What the engine may count as its own: the rest is for what it does not count."""
    return (limit_bytes - _OWN_BYTES) * 7 // 10


def _pages(descriptor: int) -> tuple[int, int]:
    """Bytes of the process's memory without the pages of files; and as the kernel counts for RLIMIT_DATA, with address
    space that is not touched now: stacks of threads, what allocators hold for later."""
    _, resident, of_files, _, _, data, _ = map(int, os.pread(descriptor, 200, 0).split())
    return (resident - of_files) * _PAGE_BYTES, data * _PAGE_BYTES


def _engine_allocator() -> Callable[..., int] | None:
    """By which the engine's own allocator is told to give back what it keeps; None where it has none."""
    control = getattr(ctypes.CDLL(_duckdb.__file__), "duckdb_je_mallctl", None)
    if control is not None:
        control.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    return control


class Memory:
    """The memory of this process and its limit. ``end`` is called, from a thread of its own, with the number of the job
    that is to end."""

    def __init__(self, limit_bytes: int, end: Callable[[int], None]) -> None:
        self.limit_bytes = limit_bytes
        self._soft_bytes = limit_bytes - max(limit_bytes // 16, 16 << 20)
        self._end = end
        self._statm = os.open("/proc/self/statm", os.O_RDONLY)
        self._busy = threading.Event()
        self._slack_bytes = 0
        self._number: int | None = None
        self._starved: int | None = None
        self._libc = ctypes.CDLL(None)
        self._libc.malloc_trim.argtypes = (ctypes.c_size_t,)
        self._engine_allocator = _engine_allocator()

    def seal(self) -> None:
        """Binds the process from now on; called once it has everything that it needs to begin."""
        held_bytes, data_bytes = _pages(self._statm)
        self._slack_bytes = max(data_bytes - held_bytes, 0)
        bound = self.limit_bytes + self._slack_bytes
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or hard > bound:
            resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
        self.watch()

    def watch(self) -> None:
        """Ends jobs that near the limit, from now on."""
        threading.Thread(target=self._watch, name="memory", daemon=True).start()

    def begin(self, number: int) -> None:
        """A job begins."""
        self._number = number
        if not self._busy.is_set():
            self._busy.set()

    def is_starved(self, number: int) -> bool:
        """Whether that job was ended for its memory."""
        return self._starved == number

    def finish(self) -> bool:
        """The job is over, and nothing of it is left. What allocators kept is given back to the machine; whether so
        much stays (descriptions of files, lookups, address space that is broken up) that the next job would find less
        room: then the process is tired."""
        self._number = None
        held_bytes, data_bytes = _pages(self._statm)
        if held_bytes > self.limit_bytes // 4:
            self._release()
            held_bytes, data_bytes = _pages(self._statm)
        is_broken_up = data_bytes - held_bytes - self._slack_bytes > self.limit_bytes // 8
        return is_broken_up or held_bytes > self.limit_bytes // 2

    def _release(self) -> None:
        if self._engine_allocator is not None:
            self._engine_allocator(_PURGE_ALL, None, None, None, 0)
        self._libc.malloc_trim(0)

    def _watch(self) -> None:
        rest = 0
        while True:
            self._busy.wait()
            time.sleep(_LOOK_S)
            number = self._number
            rest = 0 if number is not None else rest + 1
            if rest > _REST_LOOKS:
                # Few short queries need not wake this thread each.
                self._busy.clear()
                if self._number is not None:
                    # One came meanwhile, and found it set.
                    self._busy.set()
            elif number is not None and _pages(self._statm)[0] > self._soft_bytes:
                self._starved = number
                self._end(number)
