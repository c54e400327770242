"""A spec that shows masks in place of secrets may be posted again; a mask that stands for nothing is refused."""

from __future__ import annotations

import json
from typing import Any

from ingest.overlord.hidden import is_hidden, supervisor_of, unhidden
from server.config_secrets import masked

PROPERTIES: dict[str, Any] = {
    "bootstrap.servers": "localhost:9092",
    "sasl.jaas.config": 'x.PlainLoginModule required username="ann" password="hush";',
    "ssl.key.password": {"type": "default", "password": "hush"},
    "sasl.password": {"type": "environment", "variable": "NAME"},
    "druid.dynamic.config.provider": {"type": "mapString", "config": {"anything": "hush"}},
}
REGISTRY = {
    "type": "schema_registry",
    "url": "http://ann:hush@registry:8081",
    "config": {
        "basic.auth.credentials.source": "USER_INFO",
        "basic.auth.user.info": "ann:hush",
        "druid.dynamic.config.provider": {"type": "environment", "variables": {"ssl.key.password": "VAR"}},
    },
    "headers": {"Authorization": "Bearer hush"},
}
SPEC: dict[str, Any] = {
    "type": "kafka",
    "spec": {
        "dataSchema": {"dataSource": "clicks"},
        "ioConfig": {
            "consumerProperties": PROPERTIES,
            "inputFormat": {"type": "avro_stream", "avroBytesDecoder": REGISTRY},
        },
    },
}


def test_no_secret_is_shown_and_where_one_lies_is() -> None:
    shown = masked(SPEC)
    assert "hush" not in json.dumps(shown)
    io = shown["spec"]["ioConfig"]
    assert io["consumerProperties"]["sasl.password"] == PROPERTIES["sasl.password"]
    config = io["inputFormat"]["avroBytesDecoder"]["config"]
    assert config["basic.auth.credentials.source"] == "USER_INFO"
    assert config["druid.dynamic.config.provider"]["variables"] == {"ssl.key.password": "VAR"}


def test_what_was_shown_may_be_changed_and_posted_again() -> None:
    shown = masked(SPEC)
    assert is_hidden(shown) and not is_hidden(SPEC) and supervisor_of(shown) == "clicks"
    shown["spec"]["ioConfig"]["taskCount"] = 3
    again, problems = unhidden(shown, SPEC)
    assert problems == []
    assert again["spec"]["ioConfig"].pop("taskCount") == 3
    assert again == SPEC


def test_a_mask_for_which_nothing_is_stored_is_refused_with_its_path() -> None:
    _, problems = unhidden({"a": [{"p": "******"}], "b": "******"}, {"a": [], "b": True})
    assert [problem.path for problem in problems] == ["$.a[0].p", "$.b"]
    assert all("environment" in problem.cure for problem in problems)
    assert unhidden("******", "******")[1]
    assert unhidden("http://a:******@b", "http://other:pw@b")[1]


def test_anything_may_be_posted() -> None:
    odds: list[Any] = [None, 5, [], {}, {"spec": []}, {"id": 5}, {"dataSchema": {"dataSource": 5}}, {"dataSchema": []}]
    for odd in odds:
        assert supervisor_of(odd) is None
        assert unhidden(odd, None) == (odd, [])
