"""How partitions are split into groups."""

from __future__ import annotations

import random

import pytest

from ingest.supervisor.assignment import assign


def test_a_first_plan_is_druids_modulo() -> None:
    assert assign([], range(5), 2) == ((0, 2, 4), (1, 3))


def test_more_tasks_than_partitions_give_one_each() -> None:
    assert assign([], [3, 7], 5) == ((3,), (7,))
    assert assign([], [], 5) == ()


def test_a_new_partition_goes_to_the_smallest_group_and_moves_nothing() -> None:
    assert assign([(0, 2), (1,)], range(4), 2) == ((0, 2), (1, 3))


def test_a_plan_already_even_stays() -> None:
    assert assign([(0, 3), (1, 2)], range(4), 2) == ((0, 3), (1, 2))


@pytest.mark.parametrize("seed", range(200))
def test_every_plan_is_even_complete_and_moves_no_more_than_it_must(seed: int) -> None:
    rng = random.Random(seed)
    partitions = rng.sample(range(60), rng.randint(1, 40))
    before = assign([], partitions, rng.randint(1, 8))
    count = rng.randint(1, 8)
    wanted = partitions + [100 + i for i in range(rng.randint(0, 5))]
    after = assign(before, wanted, count)
    sizes = [len(group) for group in after]
    assert sorted(p for group in after for p in group) == sorted(wanted)
    assert len(after) == min(count, len(wanted)) and max(sizes) - min(sizes) <= 1
    assert assign(after, wanted, count) == after
    kept = sum(max(len(set(new) & set(old)) for old in before) for new in after)
    most = sum(sorted((min(len(group), max(sizes)) for group in before), reverse=True)[: len(after)])
    assert kept >= most - len(after)
