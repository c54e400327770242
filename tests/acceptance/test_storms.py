"""A topic made again, expired records, bad deep storage, a full disk: named, waited for, and healed exactly."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from siltstone import ApiError
from tests.acceptance.edits import PARTITIONS
from tests.acceptance.service import Service
from tests.acceptance.table import COUNT, Table
from tests.chaos.server_faults import BUSY
from tests.servers.disks import SmallDisk, may_mount
from tests.servers.fixtures import S3Place
from tests.servers.kafka import KafkaCluster
from tests.servers.proxy import Proxy
from tests.servers.seaweed import Seaweed
from tests.servers.topics import admin, create_topic, delete_topic, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

DISK_BYTES = 400 << 20


class Storm:
    """One service, with its data on a disk that can be filled and deep storage behind a proxy."""

    def __init__(self, service: Service, proxy: Proxy, disk: SmallDisk | None) -> None:
        self.service = service
        self.proxy = proxy
        self.disk = disk

    def faults(self) -> dict[str, str]:
        """What is wrong, by the health route."""
        try:
            self.service.client.health()
        except ApiError as error:
            found: dict[str, str] = error.body["faults"]
            return found
        return {}


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory, seaweed: Seaweed) -> Iterator[Storm]:
    home: Path = tmp_path_factory.mktemp("storm")
    proxy = Proxy(seaweed.ports[3])
    place = S3Place(f"http://127.0.0.1:{proxy.port}", seaweed.key, seaweed.secret, seaweed.bucket, "storm")
    settings = {
        "deep_storage": {
            "type": "s3",
            "bucket": place.bucket,
            "prefix": place.prefix,
            "endpoint_url": place.endpoint_url,
            "region": "us-east-1",
            "upload_deadline_s": 10,
        }
    }
    keys = {"AWS_ACCESS_KEY_ID": place.access_key, "AWS_SECRET_ACCESS_KEY": place.secret_key}
    if not may_mount():
        with Service(home, settings, **keys) as service:
            yield Storm(service, proxy, None)
    else:
        with SmallDisk(home / "data", DISK_BYTES) as disk, Service(home, settings, **keys) as service:
            yield Storm(service, proxy, disk)
    proxy.close()


def test_a_topic_made_again_is_named_and_read_from_its_start_after_a_reset(storm: Storm, kafka: KafkaCluster) -> None:
    table = Table(storm.service, kafka.bootstrap)
    table.send()
    table.client.submit(table.spec(maxTotalRows=COUNT // PARTITIONS))
    wait_for(lambda: table.published() == COUNT, 120, "everything is published")
    delete_topic(kafka.bootstrap, table.topic)
    create_topic(kafka.bootstrap, PARTITIONS, table.topic)
    wait_for(lambda: "created again" in table.status().get("stateReason", ""), 90, "it is named")
    assert not table.status()["healthy"]
    table.send(100)
    assert table.count() == COUNT, "nothing of the new one is taken for the old one's"
    table.client.supervisor_action(table.name, "reset")
    wait_for(lambda: table.count() == COUNT + 100, 90, "the new one is read from its start")
    wait_for(lambda: table.status()["healthy"], 90, "it is healthy again")
    table.rest(COUNT + 100)
    table.service.verify(table.name)


@pytest.mark.slow
def test_what_expired_unread_is_passed_over_when_the_spec_says_so(storm: Storm, kafka: KafkaCluster) -> None:
    table = Table(storm.service, kafka.bootstrap)
    table.send()
    table.client.submit(table.spec(resetOffsetAutomatically=True))
    wait_for(lambda: table.count() == COUNT, 120, "every row is live")
    table.client.supervisor_action(table.name, "suspend")
    wait_for(lambda: table.published() == COUNT, 120, "everything is published")
    table.send()
    client = admin(kafka.bootstrap)
    end = 2 * COUNT // PARTITIONS
    gone = TopicPartition(table.topic, 1, end - 10)
    client.delete_records([gone])[gone].result(10)
    table.client.supervisor_action(table.name, "resume")
    left = COUNT - COUNT // PARTITIONS + 10
    wait_for(lambda: table.count() == COUNT + left, 90, "all that is left is read")
    table.rest(COUNT + left)
    table.service.verify(table.name)


def test_deep_storage_that_is_busy_or_ends_in_the_middle_costs_nothing(storm: Storm, kafka: KafkaCluster) -> None:
    table = Table(storm.service, kafka.bootstrap)
    storm.proxy.answer = BUSY
    table.send()
    table.client.submit(table.spec(maxTotalRows=COUNT // 4))
    wait_for(lambda: table.count() == COUNT, 120, "rows are live although none can be pushed")
    wait_for(lambda: storm.proxy.answered > 3, 120, "it was tried")
    assert table.published() == 0
    storm.proxy.heal()
    storm.proxy.end_after = 3_000
    assert table.count() == COUNT
    storm.proxy.heal()
    table.rest(COUNT)
    assert table.service.verify(table.name)["rows"] == COUNT
    wait_for(lambda: not storm.faults(), 120, "health is as before")


@pytest.mark.slow
def _is_full(disk: SmallDisk) -> bool:
    disk.fill()
    return shutil.disk_usage(disk.path).free < 65_536


def test_a_data_directory_without_a_byte_left_stops_nothing_for_good(storm: Storm, kafka: KafkaCluster) -> None:
    if storm.disk is None:
        pytest.skip("mounting a small file system needs root: run the tests as root")
    table = Table(storm.service, kafka.bootstrap)
    table.send(COUNT // 2)
    table.client.submit(table.spec(maxRowsInMemory=100, maxTotalRows=COUNT // 4))
    wait_for(lambda: table.count() == COUNT // 2, 120, "rows are live")
    storm.disk.fill()
    table.send(COUNT // 2)
    wait_for(lambda: "disk" in storm.faults(), 120, "health names it")
    wait_for(partial(_is_full, storm.disk), 30, "what was freed meanwhile is taken, too")
    for victim in storm.service.task_processes()[-1:]:
        os.kill(victim.pid, signal.SIGKILL)  # who comes next finds the disk full
    storm.disk.clear()
    wait_for(lambda: table.count() == 2 * (COUNT // 2), 90, "it reads on by itself")
    table.rest(2 * (COUNT // 2))
    table.service.verify(table.name)
    wait_for(lambda: "disk" not in storm.faults(), 120, "health is as before")
