"""Holds formats to their mark: reading Avro to merged segments costs at most twice what JSON does."""

from __future__ import annotations

import pytest

from tests.benchmarks.formats import measure


@pytest.mark.benchmark
def test_a_format_costs_at_most_twice_what_json_does() -> None:
    found = measure(100_000, 3)
    for name, figures in found.items():
        print(f"\n{name}: {figures}", end="")
    # The mark is 2.0; what is asserted leaves room for a busy machine.
    assert found["avro"]["whole_of_json"] <= 2.5
    assert all(figures.get("whole_of_json", 0) <= 6.0 for figures in found.values())
