"""Avro by a schema registry inside whole Kafka records, with a real task process and a registry that comes late."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from ingest.offsets import OffsetMap
from tests.integration.harness import NOON_MS, PATIENCE_S, Cluster, eventually, spec
from tests.servers.kfake import Kfake
from tests.servers.process import free_ports
from tests.servers.topics import ONCE, create_topic
from tests.unit.ingest.appenderator.binary_messages import avro, framed, record_schema
from tests.unit.ingest.test_schema_registry import registry

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

SCHEMA = record_schema(("at", "long"), ("page", "string"), ("n", "long"))
LATER = record_schema(("n", "long"), ("at", "long"), ("page", ["null", "string"]))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster.under(tmp_path)
    yield found
    found.end()


def test_avro_in_whole_records_waits_for_its_registry_and_loses_nothing(
    cluster: Cluster, kfake: Kfake, tmp_path: Path
) -> None:
    topic, [port] = create_topic(kfake.bootstrap, 1), free_ports(1)
    posted = spec(kfake.bootstrap, topic)
    posted["spec"]["dataSchema"]["dimensionsSpec"]["dimensions"] += ["kafka.key", "kafka.header.env", "kafka.topic"]
    posted["spec"]["ioConfig"]["inputFormat"] = {
        "type": "kafka",
        "valueFormat": {
            "type": "avro_stream",
            "avroBytesDecoder": {"type": "schema_registry", "url": f"http://127.0.0.1:{port}"},
        },
        "keyFormat": {"type": "json"},
        "headerFormat": {"type": "string"},
    }
    producer = Producer({"bootstrap.servers": kfake.bootstrap, **ONCE})
    for n in range(200):
        row = {"at": NOON_MS + n, "page": "p", "n": n}
        value = framed(1, avro(SCHEMA, row)) if n < 100 else framed(2, avro(LATER, row))
        producer.produce(topic, value, key=b'{"user":"ann"}', headers=[("env", b"prod")], partition=0)
    producer.produce(topic, framed(3, b"no such schema"), partition=0)
    assert producer.flush(20) == 0
    node = cluster.start()
    node.overlord.submit(posted)
    told = f"schema registry at http://127.0.0.1:{port}"
    eventually(lambda: told in json.dumps(node.overlord.status("clicks")), PATIENCE_S, cluster.logs)
    answers = {f"/schemas/ids/{at}": (200, {"schema": json.dumps(s)}) for at, s in ((1, SCHEMA), (2, LATER))}
    with registry(answers, port):
        eventually(lambda: cluster.positions() == OffsetMap({0: 201}), PATIENCE_S, cluster.logs)
    node.overlord.suspend("clicks")
    eventually(lambda: cluster.rows_published() == 200, PATIENCE_S, cluster.logs)
    cluster.check_chain()
    assert sum(row.counts[0].unparseable for row in cluster.ledger()) == 1
    rows = [row for path in (tmp_path / "segments").rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    found = [row for row in rows if "page" in row]
    assert sorted(row["n"] for row in found) == list(range(200))
    assert {(row["kafka.key"], row["kafka.header.env"], row["kafka.topic"]) for row in found} == {
        ("ann", "prod", topic)
    }
