"""The test servers start, keep their data over a kill, and can be cut off."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from tests.servers.fixtures import S3Place
from tests.servers.kafka import KafkaCluster
from tests.servers.kfake import Kfake, kafka_answers
from tests.servers.postgres import Postgres
from tests.servers.process import free_ports
from tests.servers.proxy import Proxy
from tests.servers.seaweed import Seaweed
from tests.servers.topics import admin, create_topic, leaders, log_marks, produce

pytestmark = pytest.mark.integration


def test_kfake_keeps_its_topics_over_a_kill(kfake: Kfake, tmp_path: Path) -> None:
    with Kfake(tmp_path / "own") as own:
        topic = create_topic(own.bootstrap, 3)
        own.kill()
        own.start()
        assert leaders(admin(own.bootstrap), topic) == 3
        assert leaders(admin(kfake.bootstrap), topic) == 0, "two brokers share their data"


def test_apache_kafka_answers_and_makes_topics(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka.bootstrap, 2)
    assert leaders(admin(kafka.bootstrap), topic) == 2


def test_each_test_gets_an_empty_database(postgres: Postgres, postgres_url: str) -> None:
    import psycopg2

    connection = psycopg2.connect(postgres_url.replace("+psycopg2", ""))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert cursor.fetchone() == (0,)
    connection.close()
    assert f":{postgres.port}/" in postgres_url


def test_object_store_refuses_a_second_conditional_write(seaweed: Seaweed, s3_place: S3Place) -> None:
    import boto3
    from botocore.exceptions import ClientError

    client = boto3.client(
        "s3",
        endpoint_url=s3_place.endpoint_url,
        aws_access_key_id=s3_place.access_key,
        aws_secret_access_key=s3_place.secret_key,
        region_name="us-east-1",
    )
    where = {"Bucket": s3_place.bucket, "Key": f"{s3_place.prefix}/one"}
    client.put_object(**where, Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(**where, Body=b"2", IfNoneMatch="*")
    assert client.get_object(**where)["Body"].read() == b"1"
    client.close()
    assert s3_place.endpoint_url == seaweed.endpoint


def test_proxy_cuts_and_opens_again(kfake: Kfake) -> None:
    proxy = Proxy(kfake.ports[0])
    assert kafka_answers(proxy.port)
    proxy.cut()
    assert not kafka_answers(proxy.port)
    proxy.open()
    assert kafka_answers(proxy.port)
    proxy.close()


class LosesAnAnswer(Proxy):
    """Ends the connection at the first answer to whoever has sent ``told``."""

    def __init__(self, target_port: int, listen_port: int, told: bytes) -> None:
        self.told = told
        self.heard = self.lost = False
        super().__init__(target_port, listen_port)

    def _lets_pass(self, data: bytes) -> bool:
        if self.heard and not self.lost:
            self.lost = True
            return False
        self.heard = self.heard or self.told in data
        return True


def test_a_record_whose_acknowledgement_was_lost_is_written_once(tmp_path: Path) -> None:
    [announced] = free_ports(1)
    with Kfake(tmp_path, advertise=[announced]) as broker:
        proxy = LosesAnAnswer(broker.ports[0], announced, b"written once")
        topic = create_topic(broker.bootstrap)
        produce(broker.bootstrap, topic, [b"written once", b"and"])
        produce(broker.bootstrap, topic, [b"the next"])
        assert proxy.lost
        assert log_marks(broker.bootstrap, topic) == (0, 3)
        proxy.cut()
        proxy.close()  # also where it was cut before


def test_fault_api_answers(kfake: Kfake) -> None:
    assert kfake.control("/faults/clear") == ""
    with urllib.request.urlopen(kfake.registry + "/subjects", timeout=5) as answer:
        assert answer.status == 200
