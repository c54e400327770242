"""Runs the protocol under faults: safety at every change of the store, liveness after healing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.world import World

ROOT = Path(__file__).resolve().parents[2]
BAD_SEEDS = [
    int(line.split()[0])
    for line in Path(__file__).with_name("bad_seeds.txt").read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
]
# Small pieces, so that the last worker to end is not alone for long.
CHUNK = 10
FAST = 50


def hold(first: int, last: int) -> None:
    """Runs ``[first, last)``; a failure names its seed, and how to see its trace."""
    for seed in range(first, last):
        try:
            World(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error} (make simulate SEED={seed})") from error


@pytest.mark.parametrize("first", range(0, FAST, CHUNK))
def test_no_record_is_lost_doubled_or_hidden(first: int) -> None:
    hold(first, first + CHUNK)


@pytest.mark.parametrize("seed", BAD_SEEDS)
def test_a_seed_that_once_failed_holds(seed: int) -> None:
    hold(seed, seed + 1)


@pytest.mark.integration
@pytest.mark.parametrize("first", range(FAST, 500, 50))
def test_no_record_is_lost_doubled_or_hidden_in_more_worlds(first: int) -> None:
    hold(first, first + 50)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(500, 20_500, 1_000))
def test_no_record_is_lost_doubled_or_hidden_in_twenty_thousand_worlds(first: int) -> None:
    hold(first, first + 1_000)


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    seeds = [3, 7, 11]
    here = [World(seed).run().clock.hash() for seed in seeds]
    program = (
        f"from tests.simulation.world import World; print(*(World(s).run().clock.hash() for s in {seeds}), sep=chr(10))"
    )
    there = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "12345", "PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert there.stdout.split() == here


def test_another_seed_gives_another_trace() -> None:
    assert World(3).run().clock.hash() != World(4).run().clock.hash()


def test_a_kept_trace_does_not_change_the_run() -> None:
    assert World(5, keep_trace=True).run().clock.hash() == World(5).run().clock.hash()
