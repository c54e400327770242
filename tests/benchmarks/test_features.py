"""Holds features of the spec to their marks beside the plain path."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.benchmarks.features import FEATURES, MARKS


@pytest.mark.benchmark
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_costs_little_beside_the_plain_path(feature: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.features", "--feature", feature]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"\n{figures}")
    # A tenth more than the mark, for a busy machine.
    assert figures["ratio"] <= 1.1 * MARKS.get(feature, 5.0)
