"""The short selection of chaos: real processes and servers under random faults, every answer proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import run
from tests.servers.fixtures import missing
from tests.servers.kafka import kafka_home
from tests.servers.postgres import postgres_binaries
from tests.servers.seaweed import weed_binary

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SECONDS = 50


@pytest.mark.parametrize("seed", [3, 5])
def test_every_answer_is_exact_and_everything_heals_under_random_faults(tmp_path: Path, seed: int) -> None:
    for there, what in [
        (kafka_home().exists(), "Apache Kafka"),
        (postgres_binaries() is not None, "the PostgreSQL server"),
        (weed_binary() is not None, "SeaweedFS"),
    ]:
        if not there:
            missing(what, "make servers")
    outcome = run(tmp_path, seed=seed, seconds=SECONDS)
    print(outcome)
    assert sum(outcome.faults.values()) > 5
