"""One test's table with its topic, in a service that several tests share."""

from __future__ import annotations

from typing import Any

from siltstone import Client
from tests.acceptance.edits import PARTITIONS, lines, spec
from tests.acceptance.service import Service
from tests.servers.fixtures import fresh_name
from tests.servers.topics import create_topic, produce, wait_for

COUNT = 2_000


class Table:
    """One test's table with its topic, filled with the first edits."""

    def __init__(self, service: Service, bootstrap: str, topic: str | None = None) -> None:
        self.client: Client = service.client
        self.service = service
        self.bootstrap = bootstrap
        self.topic = topic or create_topic(bootstrap, PARTITIONS)
        self.name = fresh_name("edits")

    def spec(self, **tuning: Any) -> dict[str, Any]:
        posted = spec(self.bootstrap, self.topic, **tuning)
        posted["spec"]["dataSchema"]["dataSource"] = self.name
        return posted

    def send(self, count: int = COUNT) -> None:
        for partition in range(PARTITIONS):
            produce(self.bootstrap, self.topic, lines()[:count][partition::PARTITIONS], partition=partition)

    def count(self) -> int:
        return int(self.client.sql(f'SELECT COUNT(*) AS n FROM "{self.name}"')[0]["n"])

    def status(self) -> dict[str, Any]:
        payload: dict[str, Any] = self.client.supervisor_status(self.name)["payload"]
        return payload

    def rest(self, rows: int) -> None:
        self.client.supervisor_action(self.name, "suspend")
        wait_for(lambda: self.published() == rows, 120, f"{rows} rows are published")

    def published(self) -> int:
        return sum(int(each["num_rows"]) for each in self.client.segments(self.name))
