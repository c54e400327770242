"""All supervisor specs of ``specs/`` at once, on a real Kafka and one service: the rows while live, then published."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from siltstone import Client
from tests.acceptance.service import Service
from tests.acceptance.spec_cases import COUNTERS, ENVIRONMENT, LOGIN, Case, cases, registered
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import ONCE, admin, leaders, wait_for
from tests.unit.ingest.test_schema_registry import registry

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_every_spec_gives_its_rows_live_and_published_on_a_real_kafka(kafka: KafkaCluster, tmp_path: Path) -> None:
    send(kafka.bootstrap, list(cases().values()))
    settings = {"worker": {"capacity": len(cases()) + 1}}
    environment = {**ENVIRONMENT, "SPECS_BOOTSTRAP": kafka.bootstrap}
    with schema_registry() as (url, asked), Service(tmp_path, settings, **environment) as service:
        service.start()
        client = service.client
        for case in cases().values():
            client.submit(case.posted(kafka.bootstrap, url))
        for case in reversed(cases().values()):  # the one that was started last is waited for, the others have ended
            wait_for(lambda case=case: sum(counted(client, case).values()) == len(case.records()), 240, case.name)  # type: ignore[misc]  # bound now
        wrong = {name: found for name, case in cases().items() if (found := faults(client, case, published=False))}
        assert not wrong, json.dumps(wrong, indent=1)
        for name in cases():
            client.supervisor_action(name, "suspend")
        wait_for(lambda: not service.task_processes(), 240, "all tasks have published and ended")
        wrong = {name: found for name, case in cases().items() if (found := faults(client, case, published=True))}
        assert not wrong, json.dumps(wrong, indent=1)
        kept = {row["datasource"]: row["n"] for row in client.sql(KEPT)}
        assert kept == {name: case.quarantined for name, case in cases().items() if case.quarantined}
        for name in cases():
            assert client.verify(name)["faults"] == [], name
    login = "Basic " + base64.b64encode(LOGIN.encode()).decode()
    assert login in {request.get("authorization") for request in asked}


KEPT = "SELECT datasource, SUM(num_rows) AS n FROM sys.quarantine GROUP BY 1"


def send(bootstrap: str, chosen: list[Case]) -> None:
    """Makes every topic and writes the records; they are old, so that the broker is told to keep them."""
    client = admin(bootstrap)
    new = [NewTopic(case.name, 1, 1, config={"retention.ms": "-1"}) for case in chosen]
    for made in client.create_topics(new).values():
        made.result(20)
    for case in chosen:
        wait_for(lambda case=case: leaders(client, case.name) == 1, 90, case.name)  # type: ignore[misc]  # bound now
    producer = Producer({"bootstrap.servers": bootstrap, **ONCE})
    for case in chosen:
        for each in case.records():
            told: dict[str, Any] = {"key": each.key, "headers": each.headers, "timestamp": each.at_ms}
            producer.produce(case.name, each.value, partition=0, **told)
    assert producer.flush(60) == 0


def schema_registry() -> Any:
    """The schemas of all cases, over HTTP."""
    answers: dict[str, tuple[int, Any]] = {}
    for at, (kind, text) in registered().items():
        answers[f"/schemas/ids/{at}"] = (200, {"schema": text, "schemaType": kind})
    return registry(answers)


def counted(client: Client, case: Case) -> Counter[str]:
    """How the messages of a case ended, as its tasks count them."""
    found: Counter[str] = Counter()
    for tasks in client.get(f"/druid/indexer/v1/supervisor/{case.name}/stats").values():
        for told in tasks.values():
            totals = told["totals"]["buildSegments"]
            flat = {**totals, **{f"thrownAwayByReason.{k}": v for k, v in totals.get("thrownAwayByReason", {}).items()}}
            found.update({COUNTERS[name]: int(count) for name, count in flat.items() if name in COUNTERS and count})
    return found


def faults(client: Client, case: Case, *, published: bool) -> list[Any]:
    """What is wrong with a case, each with what was wanted."""
    wrong: list[Any] = []
    if not published and counted(client, case) != case.counts:
        wrong.append((counted(client, case), case.counts))
    for sql, wanted in case.queries(published):
        got = json.loads(client.sql_text(sql, "array", header=False))
        if got != wanted:
            wrong.append((sql, got, wanted))
    if published and case.segments is not None:
        intervals = sorted(row["interval"] for row in client.segments(case.name))
        wrong += [] if intervals == case.segments else [(intervals, case.segments)]
    shown = json.dumps([client.get(path) for path in shown_paths(case)])
    wrong += [f"{text} is shown" for text in case.hidden if text in shown]
    return wrong


def shown_paths(case: Case) -> Iterator[str]:
    for part in ("", "/history", "/status"):
        yield f"/druid/indexer/v1/supervisor/{case.name}{part}"
