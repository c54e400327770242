"""Nightly: one kind of trouble at a time, again and again, in the installation that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.cluster import Layout
from tests.chaos.run import run
from tests.servers.disks import may_mount

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

SECONDS = 25
THREE_BROKERS = Layout(brokers=3)
SMALL_DISKS = Layout(local_storage=True, small_disks=True)


@pytest.mark.parametrize(
    ("only", "layout"),
    [
        (["broker killed", "broker stopped", "broker frozen"], THREE_BROKERS),
        (["topic made again", "task killed"], Layout()),
        (["records expired", "task killed"], Layout()),
        (["partition added", "spec changed"], Layout()),
        (["transaction left open"], Layout()),
        (["small disk full"], SMALL_DISKS),
        (["overlord frozen"], Layout()),
        (["middle managers rolled"], Layout(workers=3)),
        (["S3 busy", "S3 slow", "S3 short"], Layout()),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, list) else "",
)
def test_one_kind_of_trouble_again_and_again(tmp_path: Path, only: list[str], layout: Layout) -> None:
    if layout.small_disks and not may_mount():
        pytest.skip("mounting small file systems needs root: run the tests as root")
    outcome = run(tmp_path, seed=1, seconds=SECONDS, only=only, layout=layout)
    print(outcome)
    assert sum(outcome.faults.values()) >= 2
