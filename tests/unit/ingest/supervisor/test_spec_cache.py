"""Specs by version are read once each, and not kept for ever."""

from __future__ import annotations

from typing import Any

from ingest.supervisor.spec_cache import VERSIONS_MAX, SpecCache


class Specs:
    """Every version there is, and how often it was read."""

    def __init__(self) -> None:
        self.reads: list[int] = []

    def spec(self, supervisor: str, version: int) -> dict[str, Any]:
        self.reads.append(version)
        return {"of": supervisor, "version": version}


def test_of_many_versions_those_asked_for_last_are_kept() -> None:
    store = Specs()
    cache = SpecCache(store)
    for version in range(2 * VERSIONS_MAX):
        assert cache.of("clicks", version) == {"of": "clicks", "version": version}
        cache.of("clicks", 0)
    assert len(cache) == VERSIONS_MAX and store.reads == list(range(2 * VERSIONS_MAX))
    cache.of("clicks", 1)
    assert store.reads[-1] == 1
