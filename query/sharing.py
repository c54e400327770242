"""Lets who asks the same of the same rows at the same time wait for one answer: fifty dashboards, one run.

The first one runs the statement; those that come meanwhile wait for what it leaves in the result cache, whose key
names every file that is read. So a shared answer is the answer at each one's own version. Nobody waits twice, nor for
one who reads slowly: an answer that was not kept (too large, failed, cancelled) is then made by each for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from query.clock import Clock
from query.errors import QueryTimeout
from query.lanes import Claim
from query.result_cache import Kept, ResultCache

READ_MS = 500
"""How long others wait for the first one to read its answer, once the engine has it."""
_LOOK_S = 0.1


class Turn:
    """The right to make an answer while others wait for it; ``over`` when it is kept or will not be, twice does no
    harm. From any thread."""

    def __init__(self, sharing: Sharing, key: tuple[bytes, Claim]) -> None:
        self._sharing = sharing
        self._key = key
        self.made_ms: int | None = None
        self.is_over = False

    def made(self) -> None:
        """The engine has the answer's begin: it is to be read now."""
        self.made_ms = self._sharing.clock.monotonic_ms()

    def over(self) -> None:
        """Nobody needs to wait any longer."""
        if not self.is_over:
            self._sharing.end(self, self._key)


class Sharing:
    """The answers of a node that are being made; safe for many threads."""

    def __init__(self, cache: ResultCache, clock: Clock) -> None:
        self.clock = clock
        self._cache = cache
        self._changed = threading.Condition()
        self._turns: dict[tuple[bytes, Claim], Turn] = {}

    def answer(self, key: bytes, claim: Claim, deadline_ms: int, check: Callable[[], None]) -> Kept | Turn | None:
        """The answer, or the turn to make it, or None: it is to be made, and for nobody else.

        Waits only for one that is as urgent. ``check`` is asked now and then, and raises to end the wait.

        Raises:
            QueryTimeout: the deadline (of the monotonic clock) has passed.
        """
        kept = self._cache.get(key)
        if kept is not None:
            return kept
        named = (key, claim)
        with self._changed:
            turn = self._turns.get(named)
            if turn is None:
                turn = self._turns[named] = Turn(self, named)
                return turn
            while not turn.is_over and not self._is_slow(turn):
                check()
                left_ms = deadline_ms - self.clock.monotonic_ms()
                if left_ms <= 0:
                    raise QueryTimeout("the query's time was over before its answer was there")
                self._changed.wait(min(left_ms / 1000, _LOOK_S))
        return self._cache.get(key)

    def end(self, turn: Turn, key: tuple[bytes, Claim]) -> None:
        """Lets go of those who wait for a turn."""
        with self._changed:
            turn.is_over = True
            if self._turns.get(key) is turn:
                del self._turns[key]
            self._changed.notify_all()

    def _is_slow(self, turn: Turn) -> bool:
        return turn.made_ms is not None and self.clock.monotonic_ms() - turn.made_ms > READ_MS
