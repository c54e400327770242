"""The store under test: memory and SQLite in the fast set, PostgreSQL as integration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.store import MetadataStore
from tests.contract.metadata.world import World


@pytest.fixture(params=["memory"])
def store(request: pytest.FixtureRequest) -> Iterator[MetadataStore]:
    """An empty store of each kind, closed after the test."""
    yield MemoryMetadataStore()


@pytest.fixture
def world(store: MetadataStore) -> World:
    """The store with a leader, a running supervisor, and partitions 0 and 1 at offset 0."""
    world = World(store)
    world.start()
    return world
