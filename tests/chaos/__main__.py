"""``python -m tests.chaos --minutes M --seed S [--runs N]``: long chaos; seeds S, S+1, ... share the minutes."""

from __future__ import annotations

import argparse
import shutil
import signal
import tempfile
import traceback
from pathlib import Path

from tests.chaos.kinds import KINDS
from tests.chaos.run import run


def main() -> int:
    """Runs every seed; the exit code says whether all were exact. A failed run's folder is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="of faults, over all runs")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=0, help="that share the minutes; 0 takes one per 5 minutes")
    parser.add_argument("--only", default="", help="kinds of faults, with commas; all unless told")
    asked = parser.parse_args()
    only = [name for name in asked.only.split(",") if name]
    if unknown := [name for name in only if name not in KINDS]:
        parser.error(f"no kind of fault is called {unknown[0]!r}; there are: {', '.join(KINDS)}")
    runs = asked.runs or max(1, round(asked.minutes / 5))
    signal.signal(signal.SIGTERM, _end)  # so that nothing is left running
    failed = []
    for seed in range(asked.seed, asked.seed + runs):
        home = Path(tempfile.mkdtemp(prefix=f"siltstone-chaos-{seed}-"))
        try:
            print(run(home, seed=seed, seconds=asked.minutes * 60 / runs, only=only), flush=True)
        except Exception:
            traceback.print_exc()
            print(f"seed {seed} FAILED; its folder is {home}", flush=True)
            failed.append(seed)
        else:
            shutil.rmtree(home, ignore_errors=True)
    print(f"{runs - len(failed)} of {runs} runs were exact" + (f"; failed: {failed}" if failed else ""), flush=True)
    return 1 if failed else 0


def _end(*_: object) -> None:
    raise SystemExit(143)


if __name__ == "__main__":
    raise SystemExit(main())
