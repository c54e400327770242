"""The product's reading decisions hold in the simulated protocol: every row once, none lost, never backwards."""

from __future__ import annotations

import pytest

from tests.simulation.product_reader import ProductRules
from tests.simulation.world import World

CHUNK = 10
FAST = 30


def hold(first: int, last: int) -> None:
    for seed in range(first, last):
        try:
            World(seed, ProductRules()).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("first", range(0, FAST, CHUNK))
def test_queries_see_every_row_once_while_the_protocol_runs(first: int) -> None:
    hold(first, first + CHUNK)


@pytest.mark.integration
@pytest.mark.parametrize("first", range(FAST, 360, 30))
def test_queries_see_every_row_once_in_more_worlds(first: int) -> None:
    hold(first, first + 30)
