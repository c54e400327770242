"""Fixtures that open something, all started on first use, how hypothesis searches, and how the fast set runs."""

import gc
import os
import sys

import hypothesis
import pytest

from tests.searching import FAST, NIGHTLY, TIMES

# What is compiled once is kept for every worker and for the hundreds of processes that tests start. Where this
# variable is set each of them would compile everything anew, which takes longer than most tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["tests.servers.fixtures"]

# No deadline per example: the machines that run this are shared, and a slow example is not a wrong one.
hypothesis.settings.register_profile(FAST, deadline=None, print_blob=True, max_examples=50)
hypothesis.settings.register_profile(NIGHTLY, deadline=None, print_blob=True, max_examples=50 * TIMES)
hypothesis.settings.load_profile(FAST)

# Many of the fast tests wait for threads of ours, so more of them than cores may run at once.
FAST_WORKERS = 4


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Plain `pytest`, which is the whole fast set, runs in parallel; named tests and other marks as they are told."""
    plain = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    fast = (
        not hasattr(config, "workerinput")
        and config.option.markexpr == "not integration and not slow and not benchmark"
    )
    if plain and fast and config.option.numprocesses is None and not config.option.usepdb:
        config.option.numprocesses = FAST_WORKERS
        # Each has a stretch of neighbours, whose fixtures it makes once, and takes from others when it is through.
        config.option.dist = "worksteal"


def pytest_collection_finish() -> None:
    """Modules and the thousands of tests stay until the end: nobody need look through them for garbage."""
    gc.freeze()
