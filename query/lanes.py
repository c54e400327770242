"""Decides which waiting query gets the next free worker, so that long ones do not starve the short (pure).

Queries wait in the order of their priority, then of the time at which each is due: its coming and some times what it
will take itself. So a short one goes before a longer one that came a little earlier, equal ones go in the order of
their coming, and nobody is overtaken for longer than some times its own length. Long ones, and those that say of
themselves that they can wait, hold all workers but one at most: there is always one that the next short query gets.
What was taken for short by the rows it reads (a join of two small tables may tell thousands of millions) becomes long
by the time it has run or the bytes it has told, wherever it stands.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

LOW_LANES = ("low", "long")
ROWS_A_MS = 20_000
"""About what one worker reads in a millisecond."""
PATIENCE = 5
"""How many times its own length a query lets shorter ones go before it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a query wants of the pool: a higher ``priority`` goes first. ``rows`` are those it reads."""

    priority: int = 0
    is_long: bool = False
    rows: int = 0


@dataclass(frozen=True, slots=True, order=True)
class Ticket:
    """A place in the queue; the smaller one goes first."""

    rank: int
    due_ms: int
    number: int
    is_long: bool


class Lanes:
    """The queue of one pool; for one thread at a time."""

    def __init__(self, workers: int) -> None:
        self._long_max = max(1, workers - 1)
        self._long = 0
        self._numbers = itertools.count()
        self._waiting: set[Ticket] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, claim: Claim, now_ms: int) -> Ticket:
        """A place among those of the same priority; ``now_ms`` of any clock that does not go back."""
        due_ms = now_ms + PATIENCE * claim.rows // ROWS_A_MS
        ticket = Ticket(-claim.priority, due_ms, next(self._numbers), claim.is_long)
        self._waiting.add(ticket)
        return ticket

    def next(self) -> Ticket | None:
        """For whom a worker is that is free now."""
        may = (one for one in self._waiting if not one.is_long or self._long < self._long_max)
        return min(may, default=None)

    def leave(self, ticket: Ticket) -> None:
        """It has a worker, or waits no longer."""
        self._waiting.discard(ticket)

    def begin(self, is_long: bool) -> None:
        """A query of that kind has got a worker."""
        self._long += is_long

    def lengthen(self) -> None:
        """A query that began as a short one is a long one: it has run, or told, for longer than a short one may."""
        self._long += 1

    def end(self, is_long: bool) -> None:
        """It has given it back."""
        self._long -= is_long
