"""Whatever tasks, publishes and kills do, a reader counts each row once and never fewer than before."""

from __future__ import annotations

import random

import pytest

from query.assembly import decide, vector_of
from segments.live import LiveAsk
from tests.unit.query.live_world import Reader, World


@pytest.mark.parametrize("block", [*range(3), *(pytest.param(block, marks=pytest.mark.slow) for block in range(3, 40))])
def test_each_row_is_counted_once_and_counts_never_fall(block: int) -> None:
    answered = 0
    for seed in range(block * 40, block * 40 + 40):
        rng = random.Random(seed)
        world = World(rng, groups=rng.choice([1, 2]), replicas=rng.choice([1, 1, 2]))
        reader = Reader(world)
        for _ in range(120):
            world.step()
            if rng.random() < 0.3:
                reader.load()
            if rng.random() < 0.5:
                answered += reader.query() is not None
        world.heal()
        reader.load()
        world.heal()
        views = []
        for _ in range(20):
            views.append(reader.query(trust=False))
            reader.load()
        newest = max(view.version for view in views if view is not None)
        assert newest == world.version, f"seed {seed}: no complete answer after healing"
    assert answered > 1000


def test_the_decision_does_not_depend_on_the_order_of_answers() -> None:
    rng = random.Random(5)
    world = World(rng, groups=2, replicas=2)
    for _ in range(40):
        world.read(rng.choice([0, 1]))
    snapshot = world.snapshot()
    vector, epochs = vector_of(snapshot, "s")
    answers = {a.token: world.ask(a.token, LiveAsk(1, a.group, vector, epochs)) for a in snapshot.attempts}
    backwards = dict(reversed(list(answers.items())))
    assert decide(snapshot, None, answers) == decide(snapshot, None, backwards)
