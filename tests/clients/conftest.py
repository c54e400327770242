"""One server for all client suites of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("clients")) as found:
        yield found
