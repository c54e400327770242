"""Druid's recorded answers over real tables: while all rows are live, and after all of them are published."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.service import Service
from tests.conformance.judging import judge_rows
from tests.conformance.native import judge_native
from tests.conformance.running import cases, fault
from tests.conformance.tables import HERE, TABLES
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ROWS = {"events": 200, "hourly": 200, "products": 10, "readings": 15}
# Columns whose types are not ingested; statements that read one are refused by its name.
LEFT_OUT = ("labels", "scores", "ratios", "payload", "phones", "users_theta", "users_hll", "price_q")
# A native query takes a column that nobody has for one of nulls, so these are not asked.
LEFT_OUT_NAMES = tuple(f'"{name}"' for name in LEFT_OUT)
# What is told of columns and segments is not about rows.
LEFT_OUT_FAMILIES = ("metadata",)


def spec(name: str, bootstrap: str, topic: str) -> dict[str, Any]:
    posted: dict[str, Any] = json.loads((HERE / "specs" / f"{name}.json").read_text())
    schema = posted["spec"]["dataSchema"]
    dimensions = schema["dimensionsSpec"]["dimensions"]
    schema["dimensionsSpec"]["dimensions"] = [each for each in dimensions if _name(each) not in LEFT_OUT]
    schema["metricsSpec"] = [each for each in schema["metricsSpec"] if _name(each) not in LEFT_OUT]
    posted["spec"]["ioConfig"] |= {"topic": topic, "consumerProperties": {"bootstrap.servers": bootstrap}}
    return posted


def _name(column: Any) -> str:
    return str(column if isinstance(column, str) else column["name"])


def answer(service: Service, case: dict[str, Any]) -> tuple[int, Any]:
    headers = {"header": True, "typesHeader": True, "sqlTypesHeader": True, "resultFormat": "array"}
    is_sql = case["kind"] == "sql"
    body = json.dumps(case["request"] | headers if is_sql else case["request"]).encode()
    url = f"{service.client.url}/druid/v2" + ("/sql" if is_sql else "")
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def wrong_answers(service: Service) -> tuple[dict[str, str], int]:
    """What is wrong by case, and how many cases are right; statements over columns left out do not count."""
    wrong, right = {}, 0
    for name, case in cases().items():
        if case["kind"] == "http" or case["family"] in LEFT_OUT_FAMILIES or fault(case) is not None:
            continue
        if case["kind"] == "native" and any(name in json.dumps(case["request"]) for name in LEFT_OUT_NAMES):
            continue
        status, body = answer(service, case)
        expected = case["expected"]["status"]
        if status != 200:
            refused = any(f"'{column}'" in str(body) for column in LEFT_OUT)
            if status != expected and not refused:
                wrong[name] = f"status {status}: {body}"
            right += status == expected
            continue
        judge = judge_rows if case["kind"] == "sql" else judge_native
        found = f"answered, expected {expected}" if expected != 200 else judge(case, body)
        if found is not None:
            wrong[name] = f"{found}: {body}"
        right += found is None
    return wrong, right


def test_recorded_statements_are_answered_alike_over_live_and_published_rows(kfake: Kfake, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        service.start()
        for name in TABLES:
            topic = create_topic(kfake.bootstrap, 1)
            data = HERE / "data" / f"{'events' if name == 'hourly' else name}.jsonl"
            produce(kfake.bootstrap, topic, data.read_bytes().splitlines())
            service.client.submit(spec(name, kfake.bootstrap, topic))

        def counted(name: str) -> int:
            what = "SUM(events)" if name == "hourly" else "COUNT(*)"
            return int(service.client.sql(f"SELECT {what} AS n FROM {name}")[0]["n"] or 0)

        known = "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'druid'"
        wait_for(lambda: len(service.client.sql(known)) == len(ROWS), 60, what="all tables")
        wait_for(lambda: all(counted(name) == count for name, count in ROWS.items()), 60, what="all rows live")
        live, right = wrong_answers(service)
        assert live == {}
        assert not service.client.segments("events"), "the rows were meant to be live"
        for name in TABLES:
            service.client.supervisor_action(name, "terminate")
        wait_for(lambda: not service.task_processes(), 60, what="tasks ended")
        published, right_again = wrong_answers(service)
        assert published == {}
        assert right == right_again > 420
        print(f"{right} recorded answers, live and published")
