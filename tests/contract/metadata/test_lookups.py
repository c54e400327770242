"""Lookups: kept as posted, replaced by higher versions only, and cheap to follow."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.metadata.records import LookupChange
from ingest.metadata.store import MetadataStore, StoreConflict

NOON_MS = 1_700_000_000_000


def container(version: str | None, **pairs: str) -> dict[str, Any]:
    return {"version": version, "lookupExtractorFactory": {"type": "map", "map": pairs}}


def put(store: MetadataStore, version: str | None, tier: str = "__default", **pairs: str) -> int:
    change = LookupChange({tier: {"countries": container(version, **pairs)}}, author="ada", comment="why")
    return store.change_lookups(change, NOON_MS)


def test_nothing_is_told_before_anybody_posted(store: MetadataStore) -> None:
    assert store.lookups(None) is None
    assert store.change_lookups(LookupChange({}), NOON_MS) == 1
    found = store.lookups(None)
    assert found is not None and found.tiers == {}


def test_lookups_come_back_as_posted_and_only_when_something_changed(store: MetadataStore) -> None:
    first = put(store, "v1", CH="Switzerland", JP="Japan")
    found = store.lookups(None)
    assert found is not None and found.change == first
    assert found.tiers == {"__default": {"countries": container("v1", CH="Switzerland", JP="Japan")}}
    assert store.lookups(first) is None
    second = put(store, "v1", tier="other", A="b")
    again = store.lookups(first)
    assert again is not None and again.change == second > first and set(again.tiers) == {"__default", "other"}


def test_another_content_needs_a_higher_version(store: MetadataStore) -> None:
    put(store, "v1", A="b")
    put(store, "v1", A="b")
    for version in ("v1", "v0", None):
        with pytest.raises(StoreConflict, match="has version 'v1' already"):
            put(store, version, A="c")
    put(store, "v2", A="c")
    found = store.lookups(None)
    assert found is not None and found.tiers["__default"]["countries"] == container("v2", A="c")


def test_a_change_is_whole_or_not_at_all(store: MetadataStore) -> None:
    before = put(store, "v2", A="b")
    both = {"__default": {"another": container("v1"), "countries": container("v1", X="y")}}
    with pytest.raises(StoreConflict):
        store.change_lookups(LookupChange(both, (("__default", "countries_old"),)), NOON_MS)
    assert store.lookups(before) is None


def test_a_removed_lookup_is_gone_and_may_come_back_with_any_version(store: MetadataStore) -> None:
    put(store, "v2", A="b")
    gone = (("__default", "countries"), ("nowhere", "nothing"))
    store.change_lookups(LookupChange({}, gone), NOON_MS)
    found = store.lookups(None)
    assert found is not None and found.tiers == {}
    put(store, "v1", A="c")


def test_every_change_leaves_a_line_with_who_and_why_and_without_contents(store: MetadataStore) -> None:
    put(store, "v1", A="b")
    (line,) = store.audit(None, 10)
    assert (line.action, line.detail["author"], line.detail["comment"]) == ("lookups_changed", "ada", "why")
    assert line.detail["put"] == {"__default": {"countries": "v1"}}
