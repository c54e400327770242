"""All mutants, and how many seeds catch each: ``python -m tests.simulation.mutants [COUNT]``."""

from __future__ import annotations

import sys
from collections import Counter

from tests.simulation import (
    mutants_reader,
    mutants_scaling,
    mutants_store,
    mutants_stream,
    mutants_supervisor,
    mutants_task,
)
from tests.simulation.mutation import Mutant, catches

MUTANTS: list[Mutant] = [
    *mutants_task.MUTANTS,
    *mutants_supervisor.MUTANTS,
    *mutants_stream.MUTANTS,
    *mutants_store.MUTANTS,
    *mutants_scaling.MUTANTS,
    *mutants_reader.MUTANTS,
]


def census(mutant: Mutant, count: int) -> tuple[int, int | None, str]:
    """How many of the first ``count`` seeds catch it, the first that does, and the commonest sign."""
    signs: Counter[str] = Counter()
    first: int | None = None
    with mutant.applied():
        for seed in range(count):
            caught = catches(seed)
            if caught is not None:
                first = seed if first is None else first
                signs[caught] += 1
    sign = Counter({text.split(": ", 1)[-1][:60]: n for text, n in signs.items()}).most_common(1)
    return sum(signs.values()), first, sign[0][0] if sign else ""


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    wanted = set(sys.argv[2:])
    for mutant in MUTANTS:
        if not wanted or mutant.name in wanted:
            caught, first, sign = census(mutant, count)
            print(f"| {mutant.name} | {mutant.removed} | {mutant.rule} | {caught} | {first} | {sign} |", flush=True)


if __name__ == "__main__":
    main()
