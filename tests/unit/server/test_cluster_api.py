"""Druid's views of a cluster, over a whole system in memory."""

from __future__ import annotations

from pathlib import Path

from tests.in_process import spec
from tests.unit.server.test_api import SUPERVISOR, World


def test_cluster_views_have_druids_default_answers(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.post(SUPERVISOR, spec())
    coordinator = "/druid/coordinator/v1"
    assert world.http.get(f"{coordinator}/datasources/no-such").status_code == 204
    assert world.http.get(f"{coordinator}/datasources/no-such/intervals").status_code == 204
    assert world.get(f"{coordinator}/datasources/clicks")["segments"]["count"] == 0
    assert world.get(f"{coordinator}/datasources/clicks?full")["segments"] == {}
    assert world.get(f"{coordinator}/datasources/clicks/intervals") == []
    assert world.get(f"{coordinator}/rules")["_default"][0]["type"] == "loadForever"
    assert world.get(f"{coordinator}/rules/clicks") == []
    assert world.get(f"{coordinator}/rules/clicks?full") == world.get(f"{coordinator}/rules")["_default"]
    assert world.get(f"{coordinator}/loadstatus") == {"clicks": 100.0}
    assert world.get(f"{coordinator}/loadstatus?simple") == {"clicks": 0}
    assert world.get(f"{coordinator}/loadstatus?full") == {"_default_tier": {"clicks": 0}}
    assert world.get(f"{coordinator}/isLeader") == {"leader": True}
    assert world.http.get(f"{coordinator}/leader").text.startswith("http://")
    assert world.get("/druid/indexer/v1/scaling") == []
    assert world.get("/druid/indexer/v1/worker")["type"] == "default"
    assert world.get("/proxy/enabled") == {"enabled": True}
    for role in ("coordinator", "overlord"):
        assert world.get(f"/proxy/{role}/status")["version"]
    world.system.stop()
