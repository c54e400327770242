"""Row rates of one task as moving averages over one, five and fifteen minutes, from counters that only grow (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

WINDOWS_MS: Final = {"1m": 60_000, "5m": 300_000, "15m": 900_000}
COUNTED: Final = ("processed", "processedBytes", "processedWithError", "thrownAway", "unparseable")


class MovingAverages:
    """Exponentially weighted, as a machine's load: what is older than a window counts for about a third.

    The first interval counts for all windows, as in Druid. Times are monotonic.
    """

    def __init__(self) -> None:
        self._at_ms: int | None = None
        self._counted: dict[str, int] = {}
        self._rates: dict[str, dict[str, float]] | None = None

    def take(self, now_ms: int, counters: Mapping[str, int]) -> None:
        """The counters as they are now; twice in a millisecond is once."""
        found = {name: counters.get(name, 0) for name in COUNTED}
        if self._at_ms is None:
            self._at_ms, self._counted = now_ms, found
            return
        passed_ms = now_ms - self._at_ms
        if passed_ms <= 0:
            return
        rates = {name: (count - self._counted[name]) * 1_000 / passed_ms for name, count in found.items()}
        before = self._rates or dict.fromkeys(WINDOWS_MS, rates)
        self._rates = {
            window: {name: _moved(before[window][name], rate, passed_ms / width_ms) for name, rate in rates.items()}
            for window, width_ms in WINDOWS_MS.items()
        }
        self._at_ms, self._counted = now_ms, found

    def document(self) -> dict[str, Any]:
        """Per second, by window and counter; empty until an interval has passed."""
        if self._rates is None:
            return {}
        return {"buildSegments": {w: {n: round(r, 3) for n, r in rates.items()} for w, rates in self._rates.items()}}


def _moved(average: float, rate: float, share: float) -> float:
    return average + (1 - math.exp(-share)) * (rate - average)
