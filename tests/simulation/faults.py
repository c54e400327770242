"""What goes wrong in a world, drawn from its seed: percentages and kinds; nothing after healing."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ingest.spec.model import AutoScaling


@dataclass(frozen=True)
class Shape:
    """How large a world is and which operator's acts it sees."""

    partitions: int
    late_partitions: int
    task_count: int
    replicas: int
    workers: int
    nodes: int
    acts: tuple[str, ...]
    two_leaders: bool


@dataclass(frozen=True)
class Faults:
    """Percentages: per message for the network, per store call for the overlord, per loop for tasks."""

    drop: float = 0
    repeat: float = 0
    slow: float = 0
    reply_lost: float = 0
    task_crash: float = 0
    manifest_lost: float = 0
    task_freeze: float = 0
    task_cut_off: float = 0
    leader_crash: float = 0
    leader_freeze: float = 0
    store_refuses: float = 0
    upload_fails: float = 0
    node_restart: float = 0
    ack_lost: float = 0
    beat_lost: float = 0

    def healed(self) -> Faults:
        return Faults()


def draw_shape(rng: random.Random) -> Shape:
    """Mostly small worlds: short traces are worth more than long ones."""
    partitions = rng.choice((1, 1, 2, 2, 2, 3, 4))
    acts = [name for name, odds in ACTS if rng.random() < odds]
    rng.shuffle(acts)
    return Shape(
        partitions=partitions,
        late_partitions=rng.choice((0, 0, 0, 1, 2)),
        task_count=rng.choice((1, 1, 1, 2)),
        replicas=rng.choice((1, 2, 2, 2, 3)),
        workers=3,
        nodes=rng.choice((0, 1, 1, 1, 2)),
        acts=tuple(acts[:3]),
        two_leaders=rng.random() < 0.3,
    )


ACTS = (
    ("suspend", 0.15),
    ("respec", 0.2),
    ("rescale", 0.12),
    ("reset", 0.12),
    ("discard", 0.08),
    ("replicas", 0.1),
    ("drain", 0.15),
    ("conflict", 0.12),
    ("host_lost", 0.15),
    ("terminate", 0.04),
)


MORE_ACTS = (("expire", 0.25), ("poison", 0.15))


def draw_more_acts(seed: int) -> tuple[str, ...]:
    """Acts from a generator of their own: a world without them is the one it was before they existed."""
    rng = random.Random(f"more acts of {seed}")
    return tuple(name for name, odds in MORE_ACTS if rng.random() < odds)


BY_LAG = AutoScaling(
    task_count_min=1,
    task_count_max=4,
    collection_interval_ms=1_000,
    collection_range_ms=2_000,
    start_delay_ms=1_000,
    period_ms=1_000,
    scale_out_threshold=12,
    scale_in_threshold=3,
    scale_out_delay_ms=2_000,
    scale_in_delay_ms=4_000,
)


@dataclass(frozen=True)
class Scaling:
    """How a world's tasks are rescaled, and whether slots are scarce.

    ``tight``: one worker, with as many slots as the tasks of all groups need, so that a group which was
    released and whose tasks died finds every slot taken by those who read on behind it (PR-12). ``by_lag``:
    the number of tasks follows the lag.
    """

    tight: bool = False
    by_lag: bool = False
    acts: tuple[str, ...] = ()


def draw_scaling(seed: int) -> Scaling:
    """Which worlds are such is a matter of their number: those that the mutants' table names stay as they were."""
    rng = random.Random(f"scaling of {seed}")
    tight, by_lag = seed % 7 == 4, seed % 9 == 6
    acts = ("scale",) * rng.randint(1, 4) if tight or seed % 11 == 6 else ()
    return Scaling(tight, by_lag, acts)


@dataclass(frozen=True)
class BadRecords:
    """A share of the records is bad in a field; past ``most`` of them the supervisor stops (PR-16)."""

    percent: int = 0
    most: int | None = None
    acts: tuple[str, ...] = ()


def draw_bad_records(seed: int) -> BadRecords:
    """As above."""
    rng = random.Random(f"bad records of {seed}")
    if seed % 8 != 6:
        return BadRecords()
    return BadRecords(rng.choice((5, 15, 40)), rng.choice((0, 2, 5, 9)), ("start_again",) * rng.randint(0, 2))


@dataclass(frozen=True)
class Quiet:
    """All producers are silent from ``from_ms`` to ``to_ms``, and the supervisor of a quiet stream is idle.
    Operators hand off early."""

    idle_after_ms: int | None = None
    from_ms: int = 0
    to_ms: int = 0
    acts: tuple[str, ...] = ()


def draw_quiet(seed: int) -> Quiet:
    """As above."""
    rng = random.Random(f"quiet of {seed}")
    if seed % 12 != 9:
        return Quiet()
    from_ms = rng.randint(4_000, 12_000)
    after_ms, to_ms = rng.choice((500, 1_500, 3_000)), from_ms + rng.randint(4_000, 10_000)
    return Quiet(after_ms, from_ms, to_ms, ("hand_off",) * rng.randint(0, 3))


def draw_bounds(seed: int, firsts: dict[int, int]) -> dict[int, int] | None:
    """Where a bounded range ends, by partition; None in worlds whose stream has no end. As above."""
    if seed % 12 != 6:
        return None
    rng = random.Random(f"bounds of {seed}")
    return {p: first + rng.randint(0, 40) for p, first in sorted(firsts.items())}


def draw_faults(rng: random.Random) -> Faults:
    """Each kind is absent, rare or frequent, independently: many worlds see few kinds, and clearly."""

    def some(rare: float, often: float, odds: float = 0.5) -> float:
        if rng.random() > odds:
            return 0.0
        return rare if rng.random() < 0.6 else often

    return Faults(
        drop=some(3, 15),
        repeat=some(3, 15),
        slow=some(5, 20),
        reply_lost=some(10, 40),
        task_crash=some(0.5, 2.5, 0.6),
        manifest_lost=some(30, 100),
        task_freeze=some(0.5, 2, 0.4),
        task_cut_off=some(0.5, 2, 0.4),
        leader_crash=some(0.3, 1.5, 0.5),
        leader_freeze=some(0.5, 1.5, 0.3),
        store_refuses=some(1, 5, 0.3),
        upload_fails=some(10, 40, 0.3),
        node_restart=some(1, 4, 0.3),
        ack_lost=some(10, 40, 0.3),
        beat_lost=some(5, 25, 0.3),
    )
