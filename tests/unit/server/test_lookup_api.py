"""Druid's lookup API over a store in memory: its statuses, its version rule, and what query nodes have loaded."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.spec import parse_supervisor_spec
from query.lookups.spec import parse_lookup
from server.api.answers import install_error_answers
from server.api.lookups import lookup_router
from server.directory import LOOK_MS, Directory

CONFIG = "/druid/coordinator/v1/lookups/config"
STATUS = "/druid/coordinator/v1/lookups/status"
NOON_MS = 1_700_000_000_000


@dataclass
class World:
    store: MemoryMetadataStore
    http: TestClient
    clock: ManualClock

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        answer = self.http.post(CONFIG + path, json=body, headers=headers)
        return answer.status_code, answer.json()

    def get(self, path: str) -> tuple[int, Any]:
        answer = self.http.get(path)
        return answer.status_code, answer.json()


@pytest.fixture
def world() -> World:
    store, app, clock = MemoryMetadataStore(), FastAPI(), ManualClock(NOON_MS)
    install_error_answers(app)
    app.include_router(lookup_router(store, Directory(store, clock), clock))
    return World(store, TestClient(app), clock)


def container(version: str = "v1", **pairs: str) -> dict[str, Any]:
    return {"version": version, "lookupExtractorFactory": {"type": "map", "map": pairs}}


def test_nothing_is_found_until_somebody_posts_an_empty_object_or_a_lookup(world: World) -> None:
    assert world.get(CONFIG)[0] == 404 and world.get(f"{CONFIG}/all")[0] == 404
    assert world.get(f"{CONFIG}?discover=true") == (200, ["__default"])
    assert world.post("", {}) == (202, {})
    assert world.get(CONFIG) == (200, []) and world.get(f"{CONFIG}/all") == (200, {})


def test_lookups_are_posted_read_and_removed_by_tier_and_name(world: World) -> None:
    both = {"__default": {"a": container(x="y"), "b": container(x="z")}}
    assert world.post("", both) == (202, both)
    assert world.get(CONFIG) == (200, ["__default"]) and world.get(f"{CONFIG}/all") == (200, both)
    assert world.get(f"{CONFIG}/__default") == (200, ["a", "b"])
    assert world.get(f"{CONFIG}/__default?detailed=true") == (200, both["__default"])
    assert world.get(f"{CONFIG}/__default/a") == (200, container(x="y"))
    assert world.http.delete(f"{CONFIG}/__default/a").status_code == 202
    assert world.http.delete(f"{CONFIG}/__default/a").status_code == 404
    assert world.get(f"{CONFIG}/__default") == (200, ["b"])
    assert world.http.delete(f"{CONFIG}/__default").status_code == 202
    assert world.get(f"{CONFIG}/__default")[0] == 404


def test_a_lookup_is_replaced_by_a_higher_version_only(world: World) -> None:
    assert world.post("/__default/a", container("v2", x="y"))[0] == 202
    status, body = world.post("/__default/a", container("v1", x="z"))
    assert status == 400 and "version 'v2' already" in body["error"]
    assert world.post("/__default/a", container("v3", x="z"))[0] == 202


def test_faults_of_all_lookups_are_told_at_once_and_nothing_is_kept(world: World) -> None:
    bad = {"__default": {"a": {"version": "1", "lookupExtractorFactory": {"type": "mop"}}, "b": 7, "c": container()}}
    status, body = world.post("", bad)
    assert status == 400 and "lookup 'a'" in body["error"] and "lookup 'b'" in body["error"]
    assert world.get(CONFIG)[0] == 404
    assert world.post("", [])[0] == 400
    kinds: tuple[Any, ...] = ({}, [], 1, None)
    for kind in kinds:
        status, body = world.post("/__default/a", {"version": "1", "lookupExtractorFactory": {"type": kind}})
        assert status == 400 and "lookupExtractorFactory.type" in body["error"]


def test_who_and_why_go_into_the_audit_trail(world: World) -> None:
    headers = {"X-Druid-Author": "ada", "X-Druid-Comment": "new countries"}
    world.http.post(f"{CONFIG}/__default/a", json=container(x="y"), headers=headers)
    (line,) = world.store.audit(None, 10)
    assert (line.detail["author"], line.detail["comment"]) == ("ada", "new countries")


def test_passwords_are_never_told_and_a_masked_one_is_not_taken_back(world: World) -> None:
    space = {
        "type": "jdbc", "table": "t", "keyColumn": "k", "valueColumn": "v",
        "connectorConfig": {"connectURI": "jdbc:postgresql://u:hidden@db/shop", "user": "u", "password": "hidden"},
    }  # fmt: skip
    posted = {"version": "v1", "lookupExtractorFactory": {"type": "cachedNamespace", "extractionNamespace": space}}
    answer = world.http.post(f"{CONFIG}/__default/a", json=posted)
    assert answer.status_code == 202 and "hidden" not in answer.text
    shown = world.http.get(f"{CONFIG}/all")
    assert "hidden" not in shown.text and "******" in shown.text
    status, body = world.post("/__default/a", shown.json()["__default"]["a"])
    assert status == 400 and "post the secret itself" in body["error"]


def test_status_tells_which_nodes_have_not_loaded_a_version(world: World) -> None:
    world.post("/__default/a", container("v1", x="y"))
    world.post("/cold/a", container("v1", x="y"))
    assert world.get(STATUS) == (200, {"__default": {"a": {"loaded": False}}, "cold": {"a": {"loaded": False}}})

    def node(name: str, version: str) -> None:
        detail = {"lookups": {"a": version}}
        world.store.renew_node(name, ("query",), f"{name}:8888", NOON_MS, {}, detail)
        world.clock.advance(LOOK_MS)

    node("one", "v1")
    node("two", "v0")
    assert world.get(f"{STATUS}/__default/a?detailed=true") == (200, {"loaded": False, "pendingNodes": ["two:8888"]})
    node("two", "v1")
    assert world.get(f"{STATUS}/__default") == (200, {"a": {"loaded": True}})
    status, told = world.get("/druid/coordinator/v1/lookups/nodeStatus")
    assert (status, told) == (200, {"__default": {"one:8888": {"a": "v1"}, "two:8888": {"a": "v1"}}})


def test_the_example_of_campaigns_can_be_posted_as_it_is() -> None:
    folder = Path(__file__).resolve().parents[3] / "examples" / "campaigns"
    spec, warnings = parse_supervisor_spec(json.loads((folder / "ad_events.supervisor.json").read_text()))
    assert spec.data_schema.datasource == "ad_events" and not warnings
    parse_lookup("ad_campaigns", json.loads((folder / "ad_campaigns.lookup.json").read_text()))
