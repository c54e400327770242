"""A database that goes away, deep storage in S3, roles in processes of their own: the same exact answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from siltstone import ApiError, ClientError
from tests.acceptance.edits import PARTITIONS, Edits, facts, lines, spec
from tests.acceptance.service import Service
from tests.acceptance.watcher import Watcher
from tests.servers.fixtures import S3Place, missing
from tests.servers.kafka import KafkaCluster
from tests.servers.postgres import Postgres, postgres_binaries
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

COUNT = 6_000
FIGURES = "SELECT COUNT(*) AS n, SUM(added) AS added FROM wikipedia"


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A database server that this test may stop."""
    if postgres_binaries() is None:
        missing("the PostgreSQL server", "apt-get install -y postgresql")
    with Postgres() as server:
        yield server


def test_a_database_that_stops_and_starts_costs_nothing(
    kafka: KafkaCluster, own_postgres: Postgres, tmp_path: Path
) -> None:
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    service = Service(tmp_path, {"metadata": {"url": own_postgres.url()}})
    service.cli("migrate", "--config", str(service.config))
    with service, Edits(kafka.bootstrap, topic, rate=600, count=COUNT) as edits:
        service.client.submit(spec(kafka.bootstrap, topic, maxRowsPerSegment=400))
        with Watcher(service.client, "wikipedia", lambda: edits.sent) as watcher:
            wait_for(lambda: watcher.last[0] >= 1_000, 120, "rows arrive")
            own_postgres.stop()
            wait_for(lambda: "metadata" in faults_of(service), 90, "health names the database")
            seen = watcher.last[0]
            own_postgres.start()
            wait_for(lambda: watcher.last[0] > seen, 120, "rows arrive again")
            wait_for(lambda: watcher.last[0] == edits.all_sent(), 90, "every row is seen")
            service.client.supervisor_action("wikipedia", "suspend")
            wait_for(lambda: service.published("wikipedia") == COUNT, 90, "everything is published")
        watcher.assert_exact(facts(COUNT))
        assert service.verify("wikipedia")["rows"] == COUNT


def test_segments_in_s3_survive_the_loss_of_the_local_copies(
    kafka: KafkaCluster, s3_place: S3Place, tmp_path: Path
) -> None:
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    for partition in range(PARTITIONS):
        produce(kafka.bootstrap, topic, lines()[:COUNT][partition::PARTITIONS], partition=partition)
    place = {
        "type": "s3",
        "bucket": s3_place.bucket,
        "prefix": s3_place.prefix,
        "endpoint_url": s3_place.endpoint_url,
        "region": "us-east-1",
    }
    keys = {"AWS_ACCESS_KEY_ID": s3_place.access_key, "AWS_SECRET_ACCESS_KEY": s3_place.secret_key}
    expected = {"n": COUNT, "added": facts(COUNT).added}
    with Service(tmp_path, {"deep_storage": place}, **keys) as service:
        service.client.submit(spec(kafka.bootstrap, topic))
        wait_for(lambda: service.client.sql(FIGURES)[0] == expected, 120, "every row is live")
        service.client.supervisor_action("wikipedia", "suspend")
        wait_for(lambda: service.published("wikipedia") == COUNT, 120, "everything is published")
        service.stop(patience_s=30)
        for copy in (tmp_path / "data" / "cache").rglob("*.parquet"):
            copy.unlink()
        service.start()
        assert service.client.sql(FIGURES)[0] == expected
        assert service.verify("wikipedia")["rows"] == COUNT


def test_roles_in_processes_of_their_own_find_each_other(
    kafka: KafkaCluster, postgres_url: str, tmp_path: Path
) -> None:
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    for partition in range(PARTITIONS):
        produce(kafka.bootstrap, topic, lines()[:COUNT][partition::PARTITIONS], partition=partition)
    shared = {"deep_storage": {"type": "local", "path": str(tmp_path / "segments")}, "secret": "of all three"}
    database = {"metadata": {"url": postgres_url}}
    overlord = Service(tmp_path / "overlord", {**shared, **database, "roles": ["overlord"]})
    overlord.cli("migrate", "--config", str(overlord.config))
    urls = {"overlord": {"urls": [overlord.client.url]}}
    worker = Worker(tmp_path / "worker", {**shared, **urls, "roles": ["middle-manager"]})
    front = Service(tmp_path / "front", {**shared, **database, **urls, "roles": ["query", "api"]})
    with overlord, worker, front:
        front.client.submit(spec(kafka.bootstrap, topic))
        expected = {"n": COUNT, "added": facts(COUNT).added}
        wait_for(lambda: front.client.sql(FIGURES)[0] == expected, 120, "every row is live")
        servers = front.client.sql("SELECT server_type, server FROM sys.servers")
        assert {"overlord", "broker", "router", "middle_manager"} == {row["server_type"] for row in servers}
        [task] = front.client.tasks()
        assert "leader" not in front.client.task_log(task["id"])
        front.client.supervisor_action("wikipedia", "suspend")
        wait_for(lambda: not worker.task_processes() and front.client.segments("wikipedia"), 120, "published")
        assert front.client.sql(FIGURES)[0] == expected
        assert front.verify("wikipedia")["rows"] == COUNT


def faults_of(service: Service) -> dict[str, str]:
    """What is wrong, by the health route."""
    try:
        service.client.health()
    except ApiError as error:
        faults: dict[str, str] = error.body["faults"]
        return faults
    return {}


class Worker(Service):
    """A middle manager alone: it leads nothing and answers no queries."""

    def ready(self) -> bool:
        with suppress(ClientError):
            return self.client.health()
        return False
