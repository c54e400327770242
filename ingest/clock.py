"""The clock port and the only module that reads the machine's clocks."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time as the runners see it.

    ``now_ms`` is wall-clock time in milliseconds UTC: for stamps that people read and that are
    stored, never for deadlines. ``monotonic_ms`` never jumps: for every deadline (PR-25).
    """

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class SystemClock:
    """The machine's own clocks; safe from any thread."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told; the memory twin of ``SystemClock``."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Moves both clocks forward by ``by_ms`` (>= 0) milliseconds."""
        assert by_ms >= 0
        with self._lock:
            self._now_ms += by_ms
