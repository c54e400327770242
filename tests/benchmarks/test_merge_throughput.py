"""Runs the merge benchmark on five million rows, each case in a process of its own, and holds its marks."""

import json
import subprocess
import sys

import pytest

CASES = {
    "plain, minute order": [],
    "rolled up by minute": ["--rollup", "--granularity", "MINUTE"],
    "one granule for all rows": ["--granularity", "HOUR"],
    "rolled up to one granule": ["--rollup", "--granularity", "HOUR"],
}


@pytest.mark.benchmark
@pytest.mark.parametrize("case", CASES)
def test_five_million_rows_merge_in_bounded_memory(case: str) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.merge_throughput", "--rows", "5000000", *CASES[case]]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"\n{case}: {figures}")
    assert figures["peak_anonymous_mb"] < 300
    assert figures["peak_rss_mb"] < 550
    assert figures["rows_per_cpu_second"] > 500_000
