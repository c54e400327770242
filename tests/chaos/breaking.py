"""What every fault has at hand, and what it leaves behind: something broken and the way to mend it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.chaos.cluster import ChaosCluster
from tests.chaos.flow import Flow
from tests.chaos.witness import Witness

Mend = Callable[[], object]
"""Mends; an answer of False asks to be called again a little later."""
Posted = Callable[[int, int], dict[str, Any]]
"""The spec for so many replicas and groups."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that was broken: ``what`` names it, no second fault touches ``parts`` until ``mend``."""

    what: str
    parts: frozenset[str]
    mend: Mend


class Hand:
    """Breaks parts of a cluster that are whole; every choice is the dice's. Main thread only."""

    def __init__(
        self,
        cluster: ChaosCluster,
        flow: Flow,
        topic: str,
        witnesses: list[Witness],
        posted: Posted,
        dice: random.Random,
    ) -> None:
        self._cluster = cluster
        self._flow = flow
        self._topic = topic
        self._witnesses = witnesses
        self._posted = posted
        self._dice = dice


def nothing() -> None:
    """There is nothing to mend."""
