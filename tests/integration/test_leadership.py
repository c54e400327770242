"""Two overlords on one PostgreSQL: one that was frozen longer than its lease writes nothing when it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import urllib3

from ingest.metadata.schema import migrate
from siltstone import Client, ClientError
from tests.acceptance.edits import spec
from tests.chaos.cluster import Member
from tests.contract.metadata.conftest import administer
from tests.servers.fixtures import fresh_name
from tests.servers.postgres import Postgres
from tests.servers.topics import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

LEASE_MS = 5_000
LATE = 6
NO_BROKER = "127.0.0.1:9"


@pytest.fixture
def database(postgres: Postgres) -> str:
    name = fresh_name("leaders")
    administer(postgres.url(), f"CREATE DATABASE {name}")
    migrate(postgres.url(name))
    return str(postgres.url(name))


@pytest.fixture
def overlords(database: str, tmp_path: Path) -> Iterator[list[Member]]:
    settings = {
        "roles": ["overlord"],
        "secret": "of two overlords",
        "metadata": {"url": database},
        "overlord": {"lease_ms": LEASE_MS},
    }
    found = [Member(tmp_path / f"overlord{number}", settings) for number in range(2)]
    with ExitStack() as stack:
        for member in found:
            member.spawn()
        for member in found:
            stack.enter_context(member)
        yield found
        for member in found:
            if member.alive:
                member.thaw()


def leads(member: Member) -> bool:
    with suppress(ClientError):
        quick = Client(member.client.url, timeout_s=2.0)  # it may be frozen
        return bool(quick.get("/druid/indexer/v1/isLeader")["leader"])
    return False


def listed(member: Member) -> list[str]:
    """The supervisors it runs; none while it does not lead."""
    with suppress(ClientError):
        return sorted(str(each["id"]) for each in member.client.supervisors())
    return []


def post(member: Member, name: str) -> tuple[int, bytes]:
    """The answer to a spec under a name of its own; it comes when the overlord goes on."""
    posted = spec(NO_BROKER, "edits")
    posted["spec"]["dataSchema"]["dataSource"] = name
    url = f"{member.client.url}/druid/indexer/v1/supervisor"
    answer = urllib3.request("POST", url, json=posted, timeout=200, retries=False)
    return answer.status, answer.data


def rows(database: str, query: str) -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(database.replace("+psycopg2", ""))) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def test_a_leader_frozen_longer_than_its_lease_writes_nothing_when_it_goes_on(
    overlords: list[Member], database: str
) -> None:
    wait_for(lambda: any(map(leads, overlords)), 120, "one leads")
    old, new = sorted(overlords, key=leads, reverse=True)
    wait_for(lambda: post(old, "before")[0] == 200, 120, "it has begun to lead")
    old.freeze()
    with ThreadPoolExecutor(LATE) as pool:
        # They wait in the frozen process's socket: the first thing it does is to try and store them.
        late = [pool.submit(post, old, f"late{number}") for number in range(LATE)]
        wait_for(lambda: leads(new), 120, "the other one takes over")
        wait_for(lambda: post(new, "after")[0] == 200, 120, "it has begun to lead")
        old.thaw()
        answers = [each.result() for each in late]
    assert [status for status, _ in answers] == [503] * LATE, answers
    assert rows(database, "SELECT DISTINCT supervisor FROM supervisor_specs ORDER BY 1") == [("after",), ("before",)]
    wait_for(lambda: not leads(old) and leads(new), 90, "one of the two leads")
    [(generation, node)] = rows(database, "SELECT generation, node FROM leadership")
    assert generation == 2 and node == new.client.get("/status")["node"]
    new.stop()
    wait_for(lambda: listed(old) == ["after", "before"], 120, "the old one stands by")
