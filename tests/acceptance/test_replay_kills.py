"""Nightly: the leader is killed in the midst of replays of the quarantine; each record becomes its row once."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from siltstone import ApiError, ClientError
from tests.acceptance.service import Service
from tests.acceptance.table import COUNT, Table
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

BAD = 20_000
KILLED_AFTER_S = (0.02, 0.1, 0.3, 0.8)


def test_a_leader_killed_in_the_midst_of_a_replay_makes_each_record_a_row_once(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    service = Service(tmp_path)
    service.patience_s = 240.0
    with service:
        table = Table(service, kafka.bootstrap)
        table.send()
        bad = [json.dumps({"page": f"p{n}", "added": 1, "user": str(n)}).encode() for n in range(BAD)]
        produce(kafka.bootstrap, table.topic, bad)
        table.client.submit(table.spec())
        wait_for(lambda: table.count() == COUNT and table.status()["aggregateLag"] == 0, 120, "all is read")
        table.rest(COUNT)
        mended = table.spec()
        mended["spec"]["dataSchema"]["timestampSpec"]["missingValue"] = "2016-06-27T00:00:00Z"
        table.client.submit({**mended, "suspended": True})
        waiting = [file["path"] for file in table.client.quarantine(table.name)]
        assert sum(file["rows"] for file in table.client.quarantine(table.name)) == BAD
        for after_s in KILLED_AFTER_S:
            asked = threading.Thread(target=replay, args=(table, waiting[0]), daemon=True)
            asked.start()
            asked.join(after_s)
            service.kill()
            asked.join(60)
            service.start()
            assert table.count() in (COUNT, COUNT + BAD), "all of a file's rows or none"
        for path in waiting:
            wait_for(lambda path=path: replay(table, path), 120, "the replay is done")  # type: ignore[misc]  # bound now
        wait_for(lambda: table.count() == COUNT + BAD, 90, "every record once")
        users = f'SELECT COUNT(DISTINCT "user") AS n FROM "{table.name}" WHERE page LIKE \'p%\' AND added = 1'
        assert table.client.sql(users)[0]["n"] >= BAD
        assert service.verify(table.name)["replays"] == len(waiting)


def replay(table: Table, path: str) -> bool:
    """Whether the file was taken, now or before."""
    with suppress(ClientError, ApiError):
        return bool(table.client.replay_quarantine(table.name, path)["records"])
    return False
