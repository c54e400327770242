"""Formats through a whole system: a registry that is away holds reading up, says so, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.errors import SpecError
from ingest.stream.schemas import MemorySchemas, SchemaRegistryUnreachable, WriterSchema
from ingest.supervisor import standstills
from server.config_secrets import masked
from tests.in_process import NOON_MS, System, chain_is_whole, click, eventually, spec
from tests.unit.ingest.appenderator.binary_messages import avro, framed, record_schema

SCHEMA = record_schema(("at", "long"), ("page", "string"), ("n", "long"))
AWAY = SchemaRegistryUnreachable(("http://registry:8081",), "refused")


def avro_spec(**tuning: Any) -> dict[str, Any]:
    posted = spec(**tuning)
    posted["spec"]["ioConfig"]["inputFormat"] = {
        "type": "avro_stream",
        "avroBytesDecoder": {"type": "schema_registry", "url": "http://registry:8081"},
    }
    return posted


def clicks(count: int, schema_id: int = 1) -> list[bytes]:
    return [framed(schema_id, avro(SCHEMA, {"at": NOON_MS + n, "page": "p", "n": n})) for n in range(count)]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def test_a_registry_that_is_away_holds_reading_up_says_so_and_nothing_is_lost(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstills, "LASTING_MS", 200)
    schemas = MemorySchemas({1: WriterSchema("AVRO", (("own", json.dumps(SCHEMA)),))})
    schemas.trouble = AWAY
    system.schemas = lambda registry: schemas
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(avro_spec(maxRowsPerSegment=100))
    system.stream.append("clicks", 0, clicks(150))
    eventually(lambda: any(task.runner.stream_error for task in system.tasks()), what="the task says why it waits")
    assert "schema registry at http://registry:8081" in str(system.tasks()[0].runner.stream_error)
    eventually(lambda: not system.overlord.status("clicks")["payload"]["healthy"], what="and so does the supervisor")
    assert system.records_read() == 0 and system.rows_published() == 0
    schemas.trouble = None
    system.stream.append("clicks", 0, [*clicks(3, schema_id=9), b"\x00", *clicks(50)])
    eventually(lambda: system.records_read() == 204)
    assert system.tasks()[0].runner.stream_error is None
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 200, 20)
    chain_is_whole(system)
    assert sum(row.counts[0].unparseable for row in system.ledger()) == 4
    assert sum(row.counts[0].good for row in system.ledger()) == 200


def test_a_new_schema_id_while_the_registry_is_away_holds_its_group_says_so_and_others_go_on(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstills, "LASTING_MS", 200)

    class Away(MemorySchemas):
        """It went away after the first schema had been asked for."""

        def find(self, schema_id: int) -> WriterSchema | None:
            if schema_id == 2 and self.trouble is not None:
                raise self.trouble
            return self.schemas.get(schema_id)

    schema = WriterSchema("AVRO", (("own", json.dumps(SCHEMA)),))
    schemas = Away({1: schema, 2: schema})
    schemas.trouble = AWAY
    system.schemas = lambda registry: schemas
    system.stream.create_topic("clicks", 2)
    system.start()
    system.overlord.submit(avro_spec(taskCount=2))
    system.stream.append("clicks", 0, clicks(10, schema_id=2))
    system.stream.append("clicks", 1, clicks(10))

    def read() -> list[int]:
        return sorted(sum(task.runner.view.positions.values()) for task in system.tasks())

    eventually(lambda: read() == [0, 10], what="the other group reads")
    eventually(lambda: not system.overlord.status("clicks")["payload"]["healthy"], what="the supervisor says so")
    told = json.dumps(system.overlord.status("clicks"))
    assert "schema registry at http://registry:8081" in told and "reading waits" in told
    system.stream.append("clicks", 1, clicks(5))
    eventually(lambda: read() == [0, 15], what="and reads on")
    schemas.trouble = None
    eventually(lambda: read() == [10, 15])
    eventually(lambda: system.overlord.status("clicks")["payload"]["healthy"], what="healthy again")
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 25)


def test_a_format_that_reads_keys_and_headers_takes_over_at_a_checkpoint(system: System, tmp_path: Path) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    plain = spec()
    plain["spec"]["dataSchema"]["dimensionsSpec"] = {"dimensions": ["page", "kafka.key", "kafka.header.env"]}
    system.overlord.submit(plain)
    system.stream.append("clicks", 0, [click(n) for n in range(50)], key=b"unread")
    eventually(lambda: system.records_read() == 50)
    wrapped = json.loads(json.dumps(plain))
    wrapped["spec"]["ioConfig"]["inputFormat"] = {
        "type": "kafka",
        "valueFormat": {"type": "json"},
        "keyFormat": {"type": "lines"},
        "headerFormat": {"type": "string"},
    }
    system.overlord.submit(wrapped)
    eventually(lambda: system.rows_published() == 50, what="rows before it follow the old spec")
    system.stream.append("clicks", 0, [click(n) for n in range(50)], key=b"the key", headers=[("env", b"prod")])
    eventually(lambda: system.records_read() == 100)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 100, 20)
    chain_is_whole(system)
    found = [(row["kafka.key"], row["kafka.header.env"]) for row in published(system, tmp_path)]
    assert sorted(found, key=str) == [("the key", "prod")] * 50 + [(None, None)] * 50


def test_a_spec_got_with_its_secrets_hidden_keeps_them_when_it_is_posted_again(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    posted = spec()
    posted["spec"]["ioConfig"]["consumerProperties"]["sasl.password"] = "hush"
    system.overlord.submit(posted)
    shown = masked(posted)
    shown["spec"]["ioConfig"]["taskCount"] = 2
    system.overlord.submit(shown)
    stored = system.store.supervisor("clicks")
    assert stored is not None and stored.version == 2
    assert stored.spec["spec"]["ioConfig"]["consumerProperties"]["sasl.password"] == "hush"
    assert stored.spec["spec"]["ioConfig"]["taskCount"] == 2
    shown["spec"]["ioConfig"]["consumerProperties"]["ssl.key.password"] = "******"
    with pytest.raises(SpecError, match="ssl.key.password.*in place of a secret"):
        system.overlord.submit(shown)


def published(system: System, tmp_path: Path) -> Iterator[dict[str, Any]]:
    for at, row in enumerate(system.store.segments("clicks", None, 100, True)):
        path = tmp_path / f"{at}.parquet"
        system.storage.pull(row.segment.load_spec, path)
        yield from pq.read_table(path).to_pylist()
