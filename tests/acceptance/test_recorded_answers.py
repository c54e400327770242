"""Druid's recorded answers over real tables: while all rows are live, and after all of them are published."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.service import Service
from tests.conformance.judging import judge_rows, judge_text, same
from tests.conformance.native import judge_native
from tests.conformance.tables import HERE, LOOKUPS, TABLES
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
ROWS = {"events": 200, "hourly": 200, "products": 10, "readings": 15}
Case = dict[str, Any]
DIFFERENCES = HERE.parents[1] / "docs" / "reference" / "differences.md"


@cache
def recorded() -> tuple[Case, ...]:
    """Every recorded request but those of docs/reference/differences.md."""
    rows = [line for line in DIFFERENCES.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    differ = {name for row in rows for name in re.findall(r"`([a-zA-Z-]+-[0-9]+)`", row.split("|")[1])}
    assert 4 < len(differ) <= 15
    with (HERE / "cases.jsonl").open(encoding="utf-8") as lines:
        read = [json.loads(line) for line in lines]
    return tuple(case for case in read if case["id"] not in differ)


def spec(name: str, bootstrap: str, topic: str) -> Case:
    posted: Case = json.loads((HERE / "specs" / f"{name}.json").read_text())
    posted["spec"]["ioConfig"] |= {"topic": topic, "consumerProperties": {"bootstrap.servers": bootstrap}}
    return posted


def sent(service: Service, method: str, path: str, kind: str | None, body: Any) -> tuple[int, str, str]:
    """Status, content type and text of an answer."""
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    headers = {"Content-Type": kind} if kind else {}
    request = urllib.request.Request(service.client.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.headers.get_content_type(), reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), error.read().decode()


def fault(service: Service, case: Case) -> str | None:
    """None when the answer is the recorded one, else what is wrong."""
    request, expected = case["request"], case["expected"]
    if case["kind"] == "http":
        kind = request.get("contentType") or ("application/json" if "body" in request else None)
        status, content_type, text = sent(service, request["method"], request["path"], kind, request.get("body"))
    else:
        headers = {"header": True, "typesHeader": True, "sqlTypesHeader": True, "resultFormat": "array"}
        body = request | headers if case["kind"] == "sql" else request
        path = "/druid/v2/sql" if case["kind"] == "sql" else "/druid/v2"
        status, content_type, text = sent(service, "POST", path, "application/json", body)
    if status != expected["status"]:
        return f"status {status}, expected {expected['status']}: {text[:300]}"
    if status != 200:
        told = json.loads(text) if text and expected.get("errorCode") else {}
        wanted = {name: expected[name] for name in ("category", "errorCode") if told and expected.get(name)}
        return None if all(told.get(name) == value for name, value in wanted.items()) else f"{told}, expected {wanted}"
    if case["kind"] == "sql":
        return judge_rows(case, json.loads(text))
    return judge_native(case, json.loads(text)) if case["kind"] == "native" else _page_fault(case, content_type, text)


def _page_fault(case: Case, content_type: str, text: str) -> str | None:
    expected, compare = case["expected"], case.get("compare")
    if compare == "status":
        return None
    if compare == "sampler":
        told = json.loads(text)
        rows = [{key: row[key] for key in ("input", "parsed", "unparseable") if key in row} for row in told["data"]]
        told = {name: told[name] for name in ("numRowsRead", "numRowsIndexed", "logicalSegmentSchema")} | {"data": rows}
        return None if same(expected["result"], told) else f"sample {told}"
    if compare == "keys":
        answer = json.loads(text)
        first = answer[0] if isinstance(answer, list) and answer else answer
        missing = set(expected["keys"]) - set(first)
        return f"members missing: {sorted(missing)}" if missing else None
    wanted_type = (expected.get("contentType") or "").partition(";")[0]
    if wanted_type and content_type != wanted_type:
        return f"content type {content_type}, expected {wanted_type}"
    if compare == "set-members":
        return None if _members(json.loads(text)) == _members(json.loads(expected["text"])) else f"members of {text}"
    return judge_text(expected["text"], text)


def _members(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _members(member) for name, member in value.items()}
    return sorted(value) if isinstance(value, list) else value


def wrong_answers(service: Service, published: bool) -> tuple[dict[str, str], int]:
    """What is wrong by case, and how many cases are right."""
    asked = [case for case in recorded() if published or case.get("needs") != "published"]
    faults = {case["id"]: fault(service, case) for case in asked}
    wrong = {name: found for name, found in faults.items() if found is not None}
    return wrong, len(asked) - len(wrong)


def test_recorded_statements_are_answered_alike_over_live_and_published_rows(kfake: Kfake, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        service.start()
        for name, pairs in LOOKUPS.items():
            lookup = {"version": "v1", "lookupExtractorFactory": {"type": "map", "map": pairs}}
            path = f"/druid/coordinator/v1/lookups/config/__default/{name}"
            assert sent(service, "POST", path, "application/json", lookup)[0] == 202
        for name in TABLES:
            topic = create_topic(kfake.bootstrap, 1)
            data = HERE / "data" / f"{'events' if name == 'hourly' else name}.jsonl"
            produce(kfake.bootstrap, topic, data.read_bytes().splitlines())
            service.client.submit(spec(name, kfake.bootstrap, topic))

        def counted(name: str) -> int:
            what = "SUM(events)" if name == "hourly" else "COUNT(*)"
            return int(service.client.sql(f"SELECT {what} AS n FROM {name}")[0]["n"] or 0)

        known = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'druid'"
        wait_for(lambda: len(service.client.sql(known)) == len(ROWS), 120, what="all tables")
        wait_for(lambda: all(counted(name) == count for name, count in ROWS.items()), 120, what="all rows live")
        live, right = wrong_answers(service, published=False)
        assert live == {}
        assert not service.client.segments("events"), "the rows were meant to be live"
        for name in TABLES:
            service.client.supervisor_action(name, "terminate")
        wait_for(lambda: not service.task_processes(), 120, what="tasks ended")
        published, right_again = wrong_answers(service, published=True)
        assert published == {}
        assert right_again >= right > 700
        print(f"{right} recorded answers live, {right_again} published")
