"""Decides which waiting query gets the next free worker, so that long ones do not starve the short (pure).

Queries wait in the order of their priority, then of their coming. Long ones, and those that say of themselves that
they can wait, hold all workers but one at most: there is always one that the next short query soon gets.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

LOW_LANES = ("low", "long")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a query wants of the pool: a higher ``priority`` goes first."""

    priority: int = 0
    is_long: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Ticket:
    """A place in the queue; the smaller one goes first."""

    rank: int
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

    def join(self, claim: Claim) -> Ticket:
        """A place behind everybody of the same priority."""
        ticket = Ticket(-claim.priority, next(self._numbers), claim.is_long)
        self._waiting.add(ticket)
        return ticket

    def is_next(self, ticket: Ticket) -> bool:
        """Whether a worker that is free now is for this one."""
        may = (one for one in self._waiting if not one.is_long or self._long < self._long_max)
        return min(may, default=None) == ticket

    def leave(self, ticket: Ticket) -> None:
        """It has a worker, or waits no longer."""
        self._waiting.discard(ticket)

    def begin(self, is_long: bool) -> None:
        """A query of that kind has got a worker."""
        self._long += is_long

    def end(self, is_long: bool) -> None:
        """It has given it back."""
        self._long -= is_long
