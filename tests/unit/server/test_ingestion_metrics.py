"""Metrics of what became of messages and of what an auto scaler decided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.overlord.tally import Tally
from server.metrics import Metrics
from server.service_metrics import add_service_metrics
from tests.in_process import NOON_MS, System, click, eventually, spec
from tests.unit.server.test_api import SUPERVISOR, World

HOUR_MS = 3_600_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    add_service_metrics(found.parts.metrics, found.parts, None)
    yield found
    found.system.stop()


def told(world: World, name: str) -> dict[str, float]:
    """Series of a metric, by their labels."""
    lines = [line for line in world.http.get("/metrics").text.splitlines() if line.startswith(name + "{")]
    return {line[len(name) : line.rindex(" ")]: float(line.rsplit(" ", 1)[1]) for line in lines}


def test_messages_are_counted_by_what_became_of_them_once_though_two_replicas_read_them(world: World) -> None:
    posted = spec(replicas=2)
    posted["spec"]["ioConfig"]["lateMessageRejectionStartDateTime"] = "2020-01-01"
    posted["spec"]["ioConfig"]["earlyMessageRejectionPeriod"] = "PT1H"
    posted["spec"]["dataSchema"]["transformSpec"] = {"filter": {"type": "selector", "dimension": "page", "value": "p1"}}
    bad = [b"{", None, b'{"at": %d, "page": "p1", "n": "x"}' % NOON_MS]
    far = [click(1, HOUR_MS), click(1, NOON_MS * 4), click(2)]
    world.system.stream.append("clicks", 0, [click(1), click(8), *bad, *far])
    world.post(SUPERVISOR, posted)
    expected = dict(good=2, partly_good=1, unparseable=1, filtered=1, tombstones=1, early=1, late=1)

    def live() -> list[float]:
        found = told(world, "siltstone_task_messages")
        return [value for labels, value in found.items() if 'fate="late"' in labels]

    eventually(lambda: live() == [1, 1], what="each replica for itself")
    world.post(f"{SUPERVISOR}/clicks/suspend")
    eventually(lambda: world.system.rows_published() == 3)
    published = told(world, "siltstone_supervisor_messages_total")
    assert published == {f'{{fate="{fate}",supervisor="clicks"}}': count for fate, count in expected.items()}


def test_decisions_of_an_auto_scaler_are_counted_and_what_it_wants_is_told(tmp_path: Path) -> None:
    system = System(tmp_path)
    system.stream.create_topic("clicks", 4)
    system.start(workers=0)
    posted = spec()
    posted["spec"]["ioConfig"]["autoScalerConfig"] = {
        "enableTaskAutoScaler": True, "taskCountMin": 1, "taskCountMax": 3, "lagCollectionIntervalMillis": 1,
        "lagCollectionRangeMillis": 1, "scaleActionStartDelayMillis": 0, "scaleActionPeriodMillis": 1,
        "scaleOutThreshold": 10, "scaleInThreshold": 1, "minTriggerScaleActionFrequencyMillis": 0,
    }  # fmt: skip
    try:
        system.stream.append("clicks", 0, [click(n) for n in range(50)])
        system.overlord.submit(posted)
        eventually(lambda: system.look() and system.overlord.tally.scalings() == {("clicks", "out"): 1})
        eventually(lambda: system.overlord.leading().scalings()["clicks"].task_count == 3)
    finally:
        system.stop()


def test_a_scaler_that_wants_fewer_goes_in() -> None:
    tally = Tally()
    for before, after in ((1, 3), (3, 2), (2, 1)):
        tally.scaled("s", before, after)
    assert tally.scalings() == {("s", "out"): 1, ("s", "in"): 2}


def test_what_somebody_else_counts_is_told_as_a_counter() -> None:
    from prometheus_client import generate_latest

    metrics = Metrics()
    metrics.counter("siltstone_supervisor_scalings", "why", lambda: [(("s", "out"), 2.0)], ("supervisor", "direction"))
    page = generate_latest(metrics.registry).decode()
    assert "# TYPE siltstone_supervisor_scalings_total counter" in page
    assert 'siltstone_supervisor_scalings_total{direction="out",supervisor="s"} 2.0' in page
