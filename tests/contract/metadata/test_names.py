"""Names that no database can hold are nobody's: told so, or found nowhere, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from segments.errors import InvalidValue
from tests.contract.metadata.world import World

ODD = ["a\0b", "\0", "", "'; DROP TABLE segments; --", '"', "\\", "%", "ü\U0001f600", "x" * 10_000]


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_found_nowhere(world: World, name: str) -> None:
    store = world.store
    looks: list[Callable[[], object]] = [
        lambda: store.supervisor(name),
        lambda: store.history(name) or None,
        lambda: store.segments(name, None, 10, include_unused=True) or None,
    ]
    for look in looks:
        try:
            assert look() is None
        except InvalidValue as refused:
            assert "\0" in name and "NUL" in str(refused)
