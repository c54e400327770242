"""Which duties take longer than their period: counted, and told once a minute instead of at every turn they miss."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Final

from ingest.clock import Clock

TOLD_EVERY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Late:
    """To be told: ``skipped`` turns since it was told last; the present run began ``running_ms`` ago, None where none
    is under way and the scheduler itself was late."""

    duty: str
    skipped: int
    running_ms: int | None


class Lateness:
    """Of one scheduler; safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun_ms: dict[str, int] = {}
        self._told_ms: dict[str, int] = {}
        self._untold: Counter[str] = Counter()

    def begun(self, duty: str) -> None:
        with self._lock:
            self._begun_ms[duty] = self._clock.monotonic_ms()

    def ended(self, duty: str) -> None:
        with self._lock:
            self._begun_ms.pop(duty, None)

    def skipped(self, duty: str) -> Late | None:
        """A turn was left out; None while that was told less than a minute ago."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            self._untold[duty] += 1
            if now_ms - self._told_ms.get(duty, now_ms - TOLD_EVERY_MS) < TOLD_EVERY_MS:
                return None
            self._told_ms[duty] = now_ms
            begun_ms = self._begun_ms.get(duty)
            return Late(duty, self._untold.pop(duty), None if begun_ms is None else now_ms - begun_ms)
