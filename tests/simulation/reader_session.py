"""Readers whose questions go to several query nodes, through a front that remembers what they saw (PR-7)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from query.session import Seen, spell
from server.sessions import Sessions, read_all
from tests.simulation.query_node import Answered, QueryNode

if TYPE_CHECKING:
    from tests.simulation.world import World

NODES_MIN = 2
JOINS_MS = (3_000, 18_000)
DIES_MS = (6_000, 22_000)


class ReaderSession:
    """One client's session: asks any node that is up, now at once, now after several publishes."""

    def __init__(self, world: World, front: Sessions, name: str) -> None:
        self.world = world
        self.front = front
        self.name = name
        self.random = random.Random(f"reader {name} of {world.seed}")
        self.shown: Answered | None = None
        self.answers = self.refusals = 0
        world.clock.after(self.random.randint(500, 3_000), self.loop)

    def loop(self) -> None:
        hurried = self.random.random() < 0.3
        self.world.clock.after(self.random.randint(50, 400) if hurried else self.random.randint(500, 4_000), self.loop)
        self.ask(self.random.choice(self.world.nodes))

    def seen(self) -> Seen | None:
        """What the front remembers of the table."""
        return read_all(self.front.seen(self.name)).get(self.world.table)

    def ask(self, node: QueryNode) -> None:
        answered = node.question(self.seen())
        if answered is None:
            self.refusals += 1
            return
        self.answers += 1
        self.world.clock.note(self.name, "is shown", len(answered.rows), "rows by", node.name, "at", answered.version)
        self.world.checks.shown(self, node, answered)
        self.front.remember(self.name, spell({self.world.table: Seen.of(answered.view)}), node.name)
        self.shown = answered


def join_readers(world: World) -> list[ReaderSession]:
    """In one world of eight: two readers, two nodes at least, one more that joins late, and one that may die for
    good. The others are the worlds they were before there were readers."""
    if world.seed % 8 != 3:
        return []
    rng = random.Random(f"readers of {world.seed}")
    while len(world.nodes) < NODES_MIN:
        world.nodes.append(world.rules.node(world, f"q{len(world.nodes)}"))
    late = world.rules.node(world, f"q{len(world.nodes)}")
    late.down_ms = rng.randint(*JOINS_MS)
    world.nodes.append(late)
    if rng.random() < 0.5:
        world.clock.after(rng.randint(*DIES_MS), world.nodes[0].die)
    front = Sessions()
    return [ReaderSession(world, front, f"reader{number}") for number in range(2)]
