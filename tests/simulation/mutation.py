"""What a mutant is: one rule of the product replaced, for as long as a ``with`` block lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.simulation.world import World

Patch = tuple[object, str, Any]


@dataclass(frozen=True)
class Mutant:
    """``first`` is the seed from which ``SEEDS`` seeds in a row must catch it."""

    name: str
    removed: str
    rule: str
    patches: Callable[[], list[Patch]]
    first: int = 0

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The rule is removed inside the block and back after it."""
        patches = self.patches()
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
        try:
            for owner, name, value in patches:
                setattr(owner, name, value)
            yield
        finally:
            for owner, name, value in before:
                setattr(owner, name, value)


def catches(seed: int) -> str | None:
    """What the simulation says of the seed, None when it holds. A rule's absence may also show as an
    error that no event should raise."""
    try:
        World(seed).run()
    except Exception as error:  # any failure of a mutant is a catch
        return f"{type(error).__name__}: {error}"
    return None
