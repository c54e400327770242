"""Decides how many who ask for live rows are served by one round of questions to the tasks (pure)."""

from __future__ import annotations

from typing import Final

BURST_MS: Final = 400
"""So much of what answers cost may be owed before the next one waits: many who refresh at once do not."""
MOST_MS: Final = 1_000
"""Nobody waits longer for what others owe, however many they were: neither a question's time nor a cancel ends it."""


class Gathering:
    """When the next assembly of a table may begin: soon for one who asks alone, and so late when many ask that each
    one serves many of them. Every assembly interrupts its tasks, which have rows to read. Pure.

    While rows come, each assembly has another answer, which all of them wait for, read and send: ``pace_ms`` for each.
    What is owed of that is worked off by the clock, and more than a burst is waited for, so that however often they
    ask, questions take a part of the processors and not what tasks need.
    """

    def __init__(self, gather_ms: int, pace_ms: float = 0.0) -> None:
        self._gather_ms = gather_ms
        self._pace_ms = pace_ms
        self._begun_ms = 0
        self._owed_until_ms = 0.0
        self._served = 0
        self._has_news = False

    def wait_ms(self, now_ms: int) -> int:
        """How long to wait, for others to join."""
        if self._served <= 1:
            return 0
        return max(self._begun_ms + self._gather_ms - now_ms, int(self._owed_until_ms) - BURST_MS - now_ms, 0)

    def begun(self, now_ms: int) -> None:
        """An assembly begins."""
        self._begun_ms, self._served, self._has_news = now_ms, 0, False

    def found_news(self) -> None:
        """It has rows that the one before had not."""
        self._has_news = True

    def served(self, askers: int = 1) -> None:
        """A query was answered by the last one, for so many who asked."""
        self._served += askers
        if self._has_news:
            owed_until_ms = max(self._owed_until_ms, self._begun_ms) + askers * self._pace_ms
            self._owed_until_ms = min(owed_until_ms, self._begun_ms + BURST_MS + MOST_MS)
