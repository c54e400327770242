"""A reader who is sent from node to node sees each row once and never fewer than before (PR-7)."""

from __future__ import annotations

import random

import pytest

from query.assembly import Reached, View
from query.session import TEXT_MAX, Seen, floor_of, read, spell
from tests.unit.query.live_world import SessionReader, World


class Session:
    """What a front remembers of one session, and an oracle: per partition and epoch the rows counted."""

    def __init__(self, world: World, remembers: bool) -> None:
        self.world = world
        self.remembers = remembers
        self.seen: Seen | None = None
        self.counts: dict[tuple[int, int], int] = {}

    def ask(self, node: SessionReader) -> bool:
        view = node.query_after(self.seen if self.remembers else None)
        if view is None:
            return False
        self.seen = Seen.of(view) if self.seen is None else self.seen.joined(Seen.of(view))
        for (_, partition), reached in view.reached.items():
            key = (partition, reached.epoch)
            assert reached.offset >= self.counts.get(key, 0), f"the count fell in {key}"
            self.counts[key] = reached.offset
        return True


def course(seed: int, remembers: bool) -> int:
    """Two nodes that load when they like, each asked now and then for the session; how often it was answered."""
    rng = random.Random(seed)
    world = World(rng, groups=rng.choice([1, 2]), replicas=rng.choice([1, 2]))
    nodes = [SessionReader(world), SessionReader(world)]
    session, answered = Session(world, remembers), 0
    for _ in range(120):
        world.step()
        node = rng.choice(nodes)
        if rng.random() < 0.3:
            node.load()
        if rng.random() < 0.5:
            answered += session.ask(node)
    world.heal()
    for node in nodes:
        node.load()
    assert any(session.ask(nodes[0]) for _ in range(20)), f"seed {seed}: the first node never answers"
    assert any(session.ask(nodes[1]) for _ in range(20)), f"seed {seed}: the second node never answers"
    return answered


def test_a_session_over_two_nodes_never_sees_a_count_fall() -> None:
    assert sum(course(seed, remembers=True) for seed in range(60)) > 1_000


def test_without_a_session_the_same_courses_show_counts_that_fall() -> None:
    fell = 0
    for seed in range(20):
        try:
            course(seed, remembers=False)
        except AssertionError as error:
            fell += "the count fell" in str(error)
    assert fell > 5, "the courses prove nothing"


def view(version: int, offset: int, epoch: int = 0) -> View:
    return View(version, {}, {("s", 0): Reached(epoch, offset)})


def test_what_was_seen_is_reached_by_version_and_offsets_unless_an_epoch_voids_them() -> None:
    seen = Seen.of(view(5, 100))
    assert seen.is_reached_by(view(5, 100)) and seen.is_reached_by(view(6, 101))
    assert not seen.is_reached_by(view(5, 99)) and not seen.is_reached_by(view(4, 200))
    assert seen.is_reached_by(view(6, 3, epoch=1)), "a reset voids what was seen"
    assert seen.is_reached_by(View(6, {}, {})), "a supervisor that is gone"


def test_two_answers_join_to_the_least_that_shows_no_less_than_both() -> None:
    joined = Seen.of(view(5, 100)).joined(Seen.of(view(6, 90)))
    assert (joined.version, joined.reached["s", 0].offset) == (6, 100)
    assert Seen.of(view(6, 3, epoch=1)).joined(Seen.of(view(5, 100))).reached["s", 0] == Reached(1, 3)
    floor = floor_of(view(7, 80), joined)
    assert floor is not None and (floor.version, floor.reached["s", 0].offset) == (7, 100)
    assert floor_of(None, None) is None


def test_what_was_seen_survives_its_spelling() -> None:
    rng = random.Random(1)
    many = {("sup-ü", p): Reached(rng.randrange(3), rng.randrange(10**9)) for p in range(5_000)}
    tables = {"wiki": Seen(7, {("s", 0): Reached(1, 5), ("t", 3): Reached(0, 1 << 62)}), "big": Seen(9, many)}
    assert read(spell(tables)) == tables
    assert read("") == {} and read(spell({})) == {}


def test_a_table_too_large_for_a_header_is_left_out() -> None:
    rng = random.Random(2)
    large = Seen(1, {("s", p): Reached(0, rng.randrange(10**12)) for p in range(40_000)})
    text = spell({"huge": large, "small": Seen(2)})
    assert len(text) <= TEXT_MAX and read(text) == {"small": Seen(2)}


@pytest.mark.parametrize("text", ["x", "AAAA", "é", "A" * (TEXT_MAX + 1), spell({"a": Seen(1)})[:-6]])
def test_a_text_that_nobody_spelled_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read(text)
