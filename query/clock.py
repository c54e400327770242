"""The clock port of the query side; the process that wires it hands in the real one."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time as the query side sees it; the ingestion side's clocks fit."""

    def now_ms(self) -> int:
        """Wall-clock time in ms UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Time for deadlines, in ms; never jumps."""
        ...
