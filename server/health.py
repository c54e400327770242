"""What is wrong in this process right now, each fault by the name of what it concerns; empty means healthy."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Health:
    """Faults that parts report and take back, and probes that are asked when somebody looks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: dict[str, str] = {}
        self._probes: list[Callable[[], dict[str, str]]] = []

    def report(self, concern: str, fault: str | None) -> None:
        """Sets the fault of one concern (metadata, deep_storage, ...), or clears it by None."""
        with self._lock:
            if fault is None:
                self._faults.pop(concern, None)
            else:
                self._faults[concern] = fault

    def add_probe(self, probe: Callable[[], dict[str, str]]) -> None:
        """``probe`` is called by whoever looks; it must be quick and must not raise."""
        self._probes.append(probe)

    def faults(self) -> dict[str, str]:
        """Concern to fault, now."""
        with self._lock:
            found = dict(self._faults)
        for probe in self._probes:
            found |= probe()
        return found
