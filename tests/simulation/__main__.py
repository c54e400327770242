"""``python -m tests.simulation --seed N`` prints one trace; ``--seeds A..B`` or ``--seeds COUNT`` runs many."""

from __future__ import annotations

import argparse
import time
import traceback

from tests.simulation.world import World


def run_one(seed: int) -> int:
    """Prints the trace of one seed; the exit code says whether it held."""
    world = World(seed, keep_trace=True)
    failure: str | None = None
    try:
        world.run()
    except AssertionError:
        failure = traceback.format_exc()
    print("\n".join(world.clock.trace))
    print(failure or f"seed {seed} holds, trace {world.clock.hash()}")
    return 1 if failure else 0


def run_many(first: int, last: int) -> int:
    """Runs ``[first, last)``; prints failures as they come and a count at the end."""
    started, failed = time.monotonic(), 0
    for seed in range(first, last):
        try:
            World(seed).run()
        except AssertionError as error:
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        done = seed - first + 1
        if done % 500 == 0:
            print(f"{done} seeds, {failed} failed, {done / (time.monotonic() - started):.0f} a second", flush=True)
    seconds = time.monotonic() - started
    print(f"{last - first} seeds, {failed} failed, {seconds:.1f} s")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="print the trace of this seed")
    parser.add_argument("--seeds", default="0..500", help="A..B (B excluded) or a count")
    options = parser.parse_args()
    if options.seed is not None:
        return run_one(options.seed)
    first, _, last = options.seeds.rpartition("..")
    return run_many(int(first or 0), int(last))


if __name__ == "__main__":
    raise SystemExit(main())
