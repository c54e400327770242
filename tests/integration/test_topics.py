"""A pattern of topics on a broker that speaks Kafka's protocol, read by a real task process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.harness import PATIENCE_S, Cluster, click, eventually, spec
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, produce

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster.under(tmp_path)
    yield found
    found.end()


def test_topics_that_match_are_read_by_a_task_and_new_ones_join(cluster: Cluster, kfake: Kfake) -> None:
    first, second = (create_topic(kfake.bootstrap, 2) for _ in range(2))
    posted = spec(kfake.bootstrap, first)
    io = posted["spec"]["ioConfig"]
    del io["topic"]
    io["topicPattern"] = f"{first}|{second}|{first}-later"
    for topic in (first, second):
        produce(kfake.bootstrap, topic, [click(n) for n in range(100)], partition=1)
    node = cluster.start()
    node.overlord.submit(posted)

    def read() -> dict[str, int]:
        tasks = node.overlord.status("clicks")["payload"]["activeTasks"]
        return {name: offset for task in tasks for name, offset in task["currentOffsets"].items() if offset}

    eventually(lambda: read() == {f"{first}:1": 100, f"{second}:1": 100}, PATIENCE_S, cluster.logs)
    create_topic(kfake.bootstrap, 1, f"{first}-later")
    produce(kfake.bootstrap, f"{first}-later", [click(n) for n in range(30)], partition=0)
    eventually(lambda: read().get(f"{first}-later:0") == 30, PATIENCE_S, cluster.logs)
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() == 230, PATIENCE_S, cluster.logs)
