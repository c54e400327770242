"""Decides how many who ask for live rows are served by one round of questions to the tasks (pure)."""

from __future__ import annotations


class Gathering:
    """When the next assembly of a table may begin: soon for one who asks alone, and so late when many ask that each
    one serves many of them. Every assembly interrupts its tasks, which have rows to read. Pure.

    While rows come, each assembly has another answer, which all of them wait for, read and send: then it is the later
    the more they are, so that however often they ask, questions take a part of the processors and not what tasks need.
    """

    def __init__(self, gather_ms: int, pace_ms: float = 0.0) -> None:
        self._gather_ms = gather_ms
        self._pace_ms = pace_ms
        self._begun_ms = 0
        self._served = 0
        self._has_news = False

    def wait_ms(self, now_ms: int) -> int:
        """How long to wait, for others to join."""
        paced_ms = int(self._served * self._pace_ms) if self._has_news else 0
        return max(self._begun_ms + max(self._gather_ms, paced_ms) - now_ms, 0) if self._served > 1 else 0

    def begun(self, now_ms: int) -> None:
        """An assembly begins."""
        self._begun_ms, self._served, self._has_news = now_ms, 0, False

    def found_news(self) -> None:
        """It has rows that the one before had not."""
        self._has_news = True

    def served(self) -> None:
        """A query was answered by the last one."""
        self._served += 1
