"""Nightly: a query node that cannot follow is named, left out in time, and whole again when it can."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from siltstone import Client, ClientError
from tests.chaos.cluster import ChaosCluster, Layout
from tests.chaos.flow import Flow, spec
from tests.servers.topics import create_topic, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

COUNT = "SELECT COUNT(*) AS n FROM chaos"


def counted(client: Client) -> int:
    """Rows in the node's answer; -1 where it refuses."""
    with suppress(ClientError):
        return int(client.sql(COUNT)[0]["n"])
    return -1


def test_a_query_node_without_its_database_is_named_then_left_out_and_comes_back_whole(tmp_path: Path) -> None:
    with ChaosCluster(tmp_path, Layout(query_nodes=2)) as cluster:
        topic = create_topic(cluster.kafka.bootstrap, 2)
        flow = Flow(cluster.kafka.bootstrap, topic, partitions=2, rate=400, transactional=False)
        whole, cut_off = (front.client for front in cluster.fronts)
        whole.submit(spec(cluster.bootstrap, topic, 1, 1, rows_per_segment=1_000))
        flow.start()
        wait_for(lambda: min(counted(whole), counted(cut_off)) > 1_500, 90, "both nodes answer")
        cluster.proxies["postgres"][-1].hang()
        told: list[str] = []

        def names_it() -> bool:
            told[:] = whole.supervisor_status("chaos")["payload"].get("waitingFor", [])
            return any("query node" in each for each in told)

        wait_for(names_it, 90, "the status names who holds the hand-off back")
        rows = sum(flow.stop())
        wait_for(lambda: counted(whole) == rows, 120, "every row is seen")
        whole.supervisor_action("chaos", "suspend")
        wait_for(lambda: not cluster.tasks(), 90, "the tasks end without the node")
        assert counted(whole) == rows
        assert counted(cut_off) <= rows, "what it answers, if it does, is what it had"
        cluster.proxies["postgres"][-1].heal()
        wait_for(partial(_is_whole, cut_off, rows), 90, "it is whole again")
        print(told)


def _is_whole(client: Client, rows: int) -> bool:
    return counted(client) == rows
