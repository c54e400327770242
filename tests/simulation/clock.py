"""One heap of (time, order, action), one seeded generator, one trace: what makes a run repeatable."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable

Action = Callable[[], None]


class Clock:
    """Virtual milliseconds. Actions at the same time run in the order they were asked for."""

    def __init__(self, seed: int, keep_trace: bool) -> None:
        self.now_ms = 0
        self.random = random.Random(seed)
        self.keep_trace = keep_trace
        self.trace: list[str] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._heap: list[tuple[int, int, Action]] = []
        self._order = 0
        self.events = 0

    def after(self, delay_ms: int, action: Action) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now_ms + max(delay_ms, 0), self._order, action))

    def step(self) -> None:
        """Runs the next action."""
        self.now_ms, _, action = heapq.heappop(self._heap)
        self.events += 1
        action()

    @property
    def next_ms(self) -> int:
        return self._heap[0][0]

    def note(self, *words: object) -> None:
        """One line of the trace; kept only when asked for, always hashed."""
        line = f"{self.now_ms:>7} " + " ".join(str(word) for word in words)
        self._digest.update(line.encode())
        if self.keep_trace:
            self.trace.append(line)

    def hash(self) -> str:
        """Equal for equal traces."""
        return self._digest.hexdigest()

    def chance(self, percent: float) -> bool:
        return percent > 0 and self.random.random() * 100 < percent

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)
