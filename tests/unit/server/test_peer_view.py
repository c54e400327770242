"""``sys.queries`` and ``sys.server_properties``: of this process and of every other that answers, secrets masked."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fastapi import FastAPI

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from server.api.answers import JsonResponse
from server.config_secrets import MASK
from server.directory import Directory
from server.http_pool import HttpPool
from server.leader_view import LeaderView
from server.peer_view import PeerView, flattened
from server.system_tables import StoreSystemTables
from tests.unit.server.test_forwarding import Listening

SETTINGS = {"roles": ["query"], "query": {"workers": 2, "lookups": None}, "secret": MASK, "jdbc": {"idle": True}}


@pytest.fixture
def tables() -> Iterator[StoreSystemTables]:
    """As of the process ``me:1`` beside one that answers, one that is another thing, and one that is gone."""
    other, odd = FastAPI(), FastAPI()
    other.get("/status/properties")(lambda: JsonResponse(SETTINGS))
    other.get("/druid/v2/sql/queries")(lambda: JsonResponse({"queries": [{"queryId": "n", "state": "ACCEPTED"}]}))
    odd.get("/status/properties")(lambda: JsonResponse([1]))
    serving = [Listening(other), Listening(odd)]
    store, clock, pool = MemoryMetadataStore(), ManualClock(), HttpPool()
    for name, address in (("a", "me:1"), ("b", serving[0].address), ("c", serving[1].address), ("d", "127.0.0.1:9")):
        store.renew_node(name, ["api", "query"], address, clock.now_ms(), {}, {})
    directory = Directory(store, clock)
    peers = PeerView(directory, pool, "me:1", {"data_dir": "/x"})
    peers.own_queries = lambda: [{"sqlQueryId": "s", "sql": "SELECT 'http://u:pw@h'", "state": "RUNNING"}]
    yield StoreSystemTables(store, None, directory, LeaderView(directory, pool, "me:1"), peers)
    pool.close()
    for each in serving:
        each.stop()


def test_every_setting_of_every_process_that_answers_is_a_row(tables: StoreSystemTables) -> None:
    rows = list(tables.rows("server_properties"))
    assert {row["node_roles"] for row in rows} == {"[router,broker]"}
    assert [row["value"] for row in rows if row["server"] == "me:1"] == ["/x"]
    others = {row["property"]: row["value"] for row in rows if row["server"] != "me:1" and row["property"]}
    assert others == dict(flattened(SETTINGS))
    # One that says something else, and one that is gone, are there all the same.
    assert len([row for row in rows if row["property"] is None]) == 2
    assert others["query.workers"] == "2" and others["secret"] == MASK and others["query.lookups"] is None


def test_queries_of_every_query_node_are_rows_without_passwords(tables: StoreSystemTables) -> None:
    listed = list(tables.rows("queries"))
    silent = [json.loads(str(row["info"])) for row in listed if row["state"] == "UNKNOWN"]
    assert len(silent) == 2 and {"server": "127.0.0.1:9", "error": "no answer in 5 s"} in silent
    rows = {row["id"]: row for row in listed if row["state"] != "UNKNOWN"}
    assert {name: (row["engine"], row["state"]) for name, row in rows.items()} == {
        "s": ("native", "RUNNING"), "n": ("native", "ACCEPTED"),
    }  # fmt: skip
    assert json.loads(str(rows["s"]["info"])) == {
        "sqlQueryId": "s", "sql": f"SELECT 'http://u:{MASK}@h'", "state": "RUNNING", "server": "me:1",
    }  # fmt: skip
