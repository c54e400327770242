"""The whole Wikipedia file through a real Kafka, compared with an independent pass over the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.edits import PARTITIONS, Edits, facts, lines, spec
from tests.acceptance.service import Service
from tests.acceptance.watcher import Watcher
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

FIGURES = 'SELECT COUNT(*) AS n, SUM(added) AS added, COUNT(DISTINCT "user") AS users FROM wikipedia'
HOURS = "SELECT TIME_FLOOR(__time, 'PT1H') AS t, COUNT(*) AS n FROM wikipedia GROUP BY 1"


def test_the_whole_file_is_answered_alike_while_live_and_published(kafka: KafkaCluster, tmp_path: Path) -> None:
    expected = facts()
    assert (expected.rows, expected.added, expected.users) == (39_244, 9_385_573, 10_531)
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    for partition in range(PARTITIONS):
        produce(kafka.bootstrap, topic, lines()[partition::PARTITIONS], partition=partition)
    with Service(tmp_path) as service:
        posted = tmp_path / "spec.json"
        posted.write_text(json.dumps(spec(kafka.bootstrap, topic)))
        service.cli("supervisor", "submit", str(posted))

        def compare() -> None:
            assert service.query(FIGURES) == {"n": expected.rows, "added": expected.added, "users": expected.users}
            assert {row["t"]: row["n"] for row in service.client.sql(HOURS)} == expected.by_hour

        wait_for(lambda: service.client.sql(FIGURES)[0]["n"] == expected.rows, 120, "every row is live")
        compare()
        assert service.client.segments("wikipedia") == []
        service.cli("supervisor", "suspend", "wikipedia")
        wait_for(lambda: len(service.client.segments("wikipedia")) == 24, 120, "a segment per hour")
        compare()
        wait_for(lambda: not service.task_processes(), 120, "tasks end")
        compare()
        assert service.verify("wikipedia")["rows"] == expected.rows
        offline = json.loads(service.cli("verify", "wikipedia", "--config", str(service.config), "--json"))
        assert offline["exact"] is True


def test_two_replicas_with_small_segments_checkpoint_often_and_stay_exact(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    with Service(tmp_path) as service, Edits(kafka.bootstrap, topic, rate=4_000) as edits:
        service.client.submit(spec(kafka.bootstrap, topic, replicas=2, maxRowsPerSegment=300))
        with Watcher(service.client, "wikipedia", lambda: edits.sent) as watcher:
            edits.all_sent()
            wait_for(lambda: watcher.last[0] == edits.sent, 100, "every row is seen")
            service.client.supervisor_action("wikipedia", "suspend")
            wait_for(lambda: service.published("wikipedia") == facts().rows, 100, "everything is published")
        watcher.assert_exact(facts())
        checked = service.verify("wikipedia")
        assert checked["ranges"] >= 24
        assert checked["rows"] == facts().rows
        assert service.query(FIGURES)["users"] == facts().users
