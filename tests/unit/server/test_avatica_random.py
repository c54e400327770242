"""Requests of a JDBC driver with something wrong in them: each is answered, or refused in words."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from server.avatica.translation import bytes_of
from tests.unit.server.test_avatica import Server

REQUESTS: list[dict[str, Any]] = [
    {"request": "openConnection", "info": {"timeZone": "UTC"}},
    {"request": "connectionSync", "connProps": {"connProps": "connPropsImpl", "autoCommit": True, "catalog": "a"}},
    {"request": "databaseProperties"},
    {"request": "createStatement"},
    {"request": "prepareAndExecute", "statementId": 1, "sql": "SELECT n FROM t", "maxRowsTotal": 9, "maxRowCount": 1},
    {"request": "prepare", "sql": "SELECT n FROM t WHERE n = ?", "maxRowCount": -1},
    {
        "request": "execute",
        "statementHandle": {"connectionId": "c", "id": 2, "signature": None},
        "parameterValues": [{"type": "LONG", "value": 5}],
        "maxRowCount": 100,
    },
    {"request": "fetch", "statementId": 1, "offset": 0, "fetchMaxRowCount": 100},
    {"request": "closeStatement", "statementId": 9},
    {"request": "syncResults", "statementId": 1, "state": {"type": "SQL", "sql": "SELECT 1"}, "offset": 0},
    {"request": "getCatalogs", "catalog": None},
    {"request": "getTables", "catalog": "druid", "schemaPattern": "%", "tableNamePattern": "t", "typeList": ["TABLE"]},
    {"request": "getColumns", "catalog": None, "schemaPattern": "druid", "tableNamePattern": "t"},
    {"request": "commit"},
]
JUNK: list[Any] = [
    None, True, -1, 2**31, 2**63, 1e308, "", "x", "\0", [], {}, [None], [[1]], {"a": 1}, "SELECT ? + ?",
    "SELECT 1 FROM",
    [{"type": "x", "value": 1}], [{"type": "JAVA_SQL_DATE", "value": "x"}], [{"type": "LONG", "value": {}}],
    [{"type": "JAVA_SQL_TIMESTAMP", "value": 1e300}], [{"type": None}], [{"type": "ARRAY", "value": [1, None, "x"]}],
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in children:
        yield from places(inner, (*path, key))


def changed(random: Random, request: dict[str, Any]) -> dict[str, Any]:
    request = copy.deepcopy(request | {"connectionId": "c"})
    *way, last = random.choice(list(places(request)))
    holder: Any = request
    for key in way:
        holder = holder[key]
    if isinstance(holder, dict) and random.random() < 0.15:
        del holder[last]
    else:
        holder[last] = random.choice(JUNK)
    return request


@pytest.mark.parametrize("name", ["connProps", "statementHandle"])
def test_what_must_be_an_object_is_refused_by_its_name(name: str) -> None:
    kind = {"connProps": "connectionSync", "statementHandle": "execute"}[name]
    for value in ("x", 1, [1]):
        assert f"{kind}: {name} must be an object" in Server().ask(kind, 500, **{name: value})["errorMessage"]


def test_a_request_with_one_part_changed_is_answered_or_refused() -> None:
    random, server, answered = Random(7), Server(), 0
    server.statement()
    for _ in range(400):
        status, answer = server.service.answer(changed(random, random.choice(REQUESTS)))
        json.dumps(answer)
        bytes_of(answer)
        answered += status == 200
    assert answered > 100
