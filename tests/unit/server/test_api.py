"""Druid's routes over a whole system in memory: forms of answers, error bodies, and who answers what."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Never

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from query.asked import Begun, ignored
from query.errors import InvalidQuery, QueryTimeout
from query.model import PlannedQuery, SqlRequest
from query.node import NOTHING
from query.session import Seen
from query.sql.catalogue import ColumnDef, MemoryCatalogue, TableDef
from query.sql.planner import plan
from query.sql.types import BIGINT
from server.app import build_app
from server.catalog import StoreCatalog
from server.config import Settings
from server.directory import Directory
from server.health import Health
from server.metrics import Metrics
from server.parts import Parts
from tests.in_process import System, click, eventually, spec

ROOT = Path(__file__).resolve().parents[3]
SUPERVISOR = "/druid/indexer/v1/supervisor"
TABLES = MemoryCatalogue([TableDef("numbers", (ColumnDef("n", BIGINT),))])


class Numbers:
    """A query service over one column of a thousand numbers; a statement named ``breaks`` breaks after some."""

    queries = list

    def __init__(self) -> None:
        self.closed, self.running = 0, {"known"}

    def execute(
        self, request: SqlRequest, seen: Mapping[str, Seen] = NOTHING, begun: Begun = ignored, askers: int = 1
    ) -> NumbersAnswer:
        return NumbersAnswer(self, plan(request, TABLES, 0), "breaks" in request.context)

    def prepare(self, request: SqlRequest) -> PlannedQuery:
        return plan(request, TABLES, 0)

    def execute_native(self, *asked: Any, **named: Any) -> Never:
        raise InvalidQuery("numbers are asked by SQL")

    def cancel(self, query_id: str) -> bool:
        return query_id in self.running


class NumbersAnswer:
    def __init__(self, service: Numbers, planned: PlannedQuery, breaks: bool) -> None:
        self._service = service
        self._breaks = breaks
        self.is_over = False
        self.planned = planned
        self.seen = NOTHING

    def batches(self) -> Iterator[pa.RecordBatch]:
        name = self.planned.result_columns[0].name
        yield pa.record_batch({name: pa.array(range(3), pa.int64())})
        if self._breaks:
            raise QueryTimeout("too long")
        yield pa.record_batch({name: pa.array(range(3, 5), pa.int64())})
        self.is_over = True

    def cancel(self) -> None:
        raise AssertionError("nobody cancels these")

    def close(self) -> None:
        self._service.closed += 1


class World:
    """The application and what is behind it."""

    def __init__(self, root: Path) -> None:
        self.system = System(root)
        self.system.stream.create_topic("clicks", 2)
        self.system.start()
        self.numbers = Numbers()
        self.health = Health()
        self.parts = Parts(
            settings=Settings(data_dir=root),
            node="node-1",
            address="overlord-1:1",
            clock=self.system.clock,
            secret="s",
            health=self.health,
            metrics=Metrics(),
            storage=self.system.storage,
            scratch=root,
            directory=Directory(self.system.store, self.system.clock),
            store=self.system.store,
            catalog=StoreCatalog(self.system.store, self.system.clock, ("query",), {}),
            overlord=self.system.overlord,
            queries=self.numbers,
        )
        self.http = TestClient(build_app(self.parts), raise_server_exceptions=False)

    def get(self, path: str, status: int = 200) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.http.post(path, json={} if body is None else body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield (found := World(tmp_path))
    found.system.stop()


def test_a_supervisor_lives_by_druids_routes(world: World) -> None:
    assert world.get(SUPERVISOR) == []
    assert world.post(SUPERVISOR, spec())["id"] == "clicks"
    assert world.get(SUPERVISOR) == ["clicks"]
    [full] = world.get(SUPERVISOR + "?full")
    assert full["spec"]["spec"]["dataSchema"]["dataSource"] == "clicks" and full["suspended"] is False
    [state] = world.get(SUPERVISOR + "?state=true")
    assert "spec" not in state and {"id", "state", "detailedState", "healthy", "suspended"} <= set(state)
    [system] = world.get(SUPERVISOR + "?system")
    assert system["type"] == "kafka" and system["source"] == "clicks" and isinstance(system["specString"], str)
    world.system.stream.append("clicks", 0, [click(n) for n in range(10)])
    eventually(lambda: world.system.records_read() == 10)
    assert world.get(f"{SUPERVISOR}/clicks/status")["payload"]["dataSource"] == "clicks"
    assert world.get(f"{SUPERVISOR}/clicks/health") == {"healthy": True}
    assert world.get(f"{SUPERVISOR}/clicks/parseErrors") == []
    assert world.post(f"{SUPERVISOR}/clicks/suspend")["suspended"] is True
    assert "already" in world.post(f"{SUPERVISOR}/clicks/suspend", status=400)["error"]
    eventually(lambda: world.system.rows_published() == 10)
    assert world.post(f"{SUPERVISOR}/resumeAll") == {"status": "success"}
    assert world.get(f"{SUPERVISOR}/clicks")["suspended"] is False
    assert world.post(f"{SUPERVISOR}/clicks/terminate") == {"id": "clicks"}
    history = world.get(f"{SUPERVISOR}/clicks/history")
    assert history[0]["spec"] == {"type": "NoopSupervisorSpec"} and history[-1]["spec"]["type"] == "kafka"
    assert world.get(f"{SUPERVISOR}/clicks/history?count=1") == history[:1]
    assert "clicks" not in world.get(SUPERVISOR)


def test_tasks_segments_and_tables_are_listed_as_druid_does(world: World) -> None:
    world.post(SUPERVISOR, spec())
    world.system.stream.append("clicks", 0, [click(n) for n in range(10)])
    eventually(lambda: world.system.records_read() == 10)
    [task] = world.get("/druid/indexer/v1/runningTasks")
    assert task["type"] == "index_kafka" and task["statusCode"] == "RUNNING" and task["dataSource"] == "clicks"
    assert world.get("/druid/indexer/v1/tasks?state=complete") == []
    assert world.get(f"/druid/indexer/v1/task/{task['id']}")["payload"]["supervisorId"] == "clicks"
    assert world.get(f"/druid/indexer/v1/task/{task['id']}/status")["status"]["id"] == task["id"]
    report = f"/druid/indexer/v1/task/{task['id']}/reports"
    eventually(lambda: world.http.get(report).status_code == 200)
    assert "buildSegments" in str(world.get(report))
    world.post(f"{SUPERVISOR}/clicks/suspend")
    eventually(lambda: world.system.rows_published() == 10)
    [segment] = world.get("/druid/coordinator/v1/metadata/segments")
    assert segment["num_rows"] == 10 and segment["dataSource"] == "clicks"
    assert world.get("/druid/coordinator/v1/metadata/datasources") == ["clicks"]
    [name] = world.get("/druid/coordinator/v1/metadata/datasources/clicks/segments")
    assert world.get("/druid/v2/datasources/clicks") == {"dimensions": ["n", "page"], "metrics": []}
    mark = {"segmentIds": [name]}
    assert world.post("/druid/coordinator/v1/datasources/clicks/markUnused", mark) == {"numChangedSegments": 1}
    assert world.get("/druid/coordinator/v1/metadata/segments") == []
    assert world.post("/druid/coordinator/v1/datasources/clicks/markUsed", mark) == {"numChangedSegments": 1}
    assert world.post("/siltstone/v1/verify/clicks")["faults"] == []


@pytest.mark.parametrize(
    "path",
    [
        f"{SUPERVISOR}/nobody",
        f"{SUPERVISOR}/nobody/status",
        f"{SUPERVISOR}/nobody/history",
        "/druid/indexer/v1/task/nothing",
        "/druid/indexer/v1/task/nothing/log",
        "/druid/coordinator/v1/metadata/datasources/nothing",
        "/druid/v2/datasources/nothing",
        "/no/such/route",
    ],
)
def test_what_does_not_exist_is_404_with_an_error_text(world: World, path: str) -> None:
    assert isinstance(world.get(path, 404)["error"], str)


def test_a_wrong_spec_answers_with_all_its_problems(world: World) -> None:
    wrong = spec()
    wrong["spec"]["ioConfig"]["replicas"] = 0
    wrong["spec"]["dataSchema"]["granularitySpec"]["segmentGranularity"] = "FORTNIGHT"
    body = world.post(SUPERVISOR, wrong, 400)
    assert len(body["problems"]) == len(body["details"]) >= 2
    assert {"path", "value", "rule", "cure"} == set(body["details"][0])
    assert all(problem in body["error"] for problem in body["problems"])


def test_a_body_that_is_no_json_or_of_the_wrong_form_is_400(world: World) -> None:
    for path in (SUPERVISOR, "/druid/v2/sql"):
        answer = world.http.post(path, content=b"{", headers={"content-type": "application/json"})
        assert answer.status_code == 400 and "not JSON" in answer.text
    answer = world.http.post("/druid/v2/sql", content=b"<a/>", headers={"content-type": "text/xml"})
    assert answer.status_code == 400 and "text/plain" in answer.text
    assert world.post("/druid/coordinator/v1/datasources/x/markUnused", {}, 404)["error"]
    world.post(SUPERVISOR, spec())
    moves = {"partitions": {"type": "end", "stream": "other", "partitionOffsetMap": {"0": 1}}}
    assert "other" in world.post(f"{SUPERVISOR}/clicks/resetOffsets", moves, 400)["error"]


NUMBERS = "SELECT n FROM numbers"


def test_sql_answers_in_every_format_and_names_the_query(world: World) -> None:
    answer = world.http.post("/druid/v2/sql", json={"query": NUMBERS, "context": {"sqlQueryId": "mine"}})
    assert answer.json() == [{"n": n} for n in range(5)]
    assert answer.headers["x-druid-sql-query-id"] == "mine"
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        plain = world.http.post("/druid/v2/sql/", content=NUMBERS, headers={"content-type": kind})
        assert plain.json() == answer.json() and plain.headers["x-druid-sql-query-id"]
    asked = {"query": NUMBERS, "resultFormat": "csv", "header": True}
    csv = world.http.post("/druid/v2/sql", json=asked)
    assert csv.text == "n\n0\n1\n2\n3\n4\n\n" and csv.headers["content-type"].startswith("text/csv")
    assert csv.headers["x-druid-sql-header-included"] == "yes"
    assert world.post("/druid/v2/sql", {"query": NUMBERS, "resultFormat": "array"}) == [[n] for n in range(5)]
    assert world.numbers.closed == 5


def test_a_query_that_is_refused_has_druids_error_body(world: World) -> None:
    body = world.post("/druid/v2/sql", {"query": "SELECT x FROM numbers"}, 400)
    members = {"error", "errorCode", "persona", "category", "errorMessage", "errorClass", "host", "context"}
    assert set(body) == members and body["category"] == "INVALID_INPUT" and "x" in body["errorMessage"]
    refused: list[Any] = [
        {"query": " "},
        {"query": NUMBERS, "resultFormat": "xml"},
        {"query": NUMBERS, "header": "yes"},
        [],
    ]
    for wrong in refused:
        assert world.post("/druid/v2/sql", wrong, 400)["category"] == "INVALID_INPUT"
    assert world.http.delete("/druid/v2/sql/known").status_code == 202
    assert world.http.delete("/druid/v2/sql/unknown").status_code == 404


def test_an_answer_that_fails_on_its_way_never_looks_whole(world: World) -> None:
    asked = {"query": NUMBERS, "context": {"breaks": True}}
    answer = world.http.post("/druid/v2/sql", json=asked)
    assert not answer.text.rstrip().endswith("]")
    assert world.numbers.closed == 1


def test_health_names_what_is_wrong(world: World) -> None:
    assert world.get("/status/health") is True
    world.health.report("deep_storage", "bucket b: missing")
    assert world.get("/status/health", 503)["faults"] == {"deep_storage": "bucket b: missing"}
    world.health.report("deep_storage", None)
    assert world.get("/status/health") is True
    assert world.get("/status")["roles"] == ["overlord", "middle-manager", "query", "api"]
    page = world.http.get("/metrics").text
    assert 'siltstone_http_requests_total{method="GET",status="503"} 1.0' in page


def test_secrets_of_a_spec_are_never_told(world: World) -> None:
    posted = spec()
    posted["spec"]["ioConfig"]["consumerProperties"]["sasl.password"] = "hunter2"
    world.post(SUPERVISOR, posted)
    for path in (SUPERVISOR + "?full", SUPERVISOR + "?system", f"{SUPERVISOR}/clicks", f"{SUPERVISOR}/history"):
        assert "hunter2" not in world.http.get(path).text


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [151, 254, 500, 1_000])
def test_a_body_nested_too_deeply_is_refused_in_time(world: World, levels: int) -> None:
    posted = spec()
    posted["context"] = {"deep": nested(levels)}
    body = b'{"context":' + b"[" * levels + b"]" * levels + b"}"
    for path in (SUPERVISOR, "/druid/v2/sql"):
        answer = world.http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400 and "nested too deeply" in answer.text
    posted["context"] = {"deep": nested(140)}
    assert world.post(SUPERVISOR, posted)["id"] == "clicks"


def test_the_clients_properties_are_judged_with_the_rest_of_a_posted_spec(world: World) -> None:
    posted = spec(onBadValue="explode")
    properties = posted["spec"]["ioConfig"]["consumerProperties"]
    properties |= {"sasl.jass.config": "hush-1", "sasl.password": ["hush-2"], "fetch.min.bytes": "many"}
    answer = world.post(SUPERVISOR, posted, 400)
    paths = [detail["path"] for detail in answer["details"]]
    assert "$.spec.tuningConfig.onBadValue" in paths
    for name in ("sasl.jass.config", "sasl.password", "fetch.min.bytes"):
        assert f"$.spec.ioConfig.consumerProperties['{name}']" in paths
    assert "hush" not in str(answer)
    assert world.get(SUPERVISOR) == []
    posted = spec()
    posted["spec"]["ioConfig"]["consumerProperties"] |= {"group.id": "mine", "auto.offset.reset": "latest"}
    assert any("auto.offset.reset" in warning for warning in world.post(SUPERVISOR, posted)["warnings"])


def test_secrets_stay_inside(world: World) -> None:
    posted = spec()
    kept = {"ssl.keystore.key": "hush-1", "ssl.key.password": "hush-2", "ssl.key.pem": "hush-3"}
    posted["context"] = {**kept, "token": 77_077, "where": "postgresql://me:hush-4@db/x"}
    world.post(SUPERVISOR, posted)
    seen = str(world.get(f"{SUPERVISOR}/clicks")) + str(world.get(f"{SUPERVISOR}/clicks/history"))
    assert "hush" not in seen and "77077" not in seen


@pytest.mark.parametrize("named", ["a\r\nX-Evil: 1", "\u4e2d", "a" * 251, " a"])
def test_a_query_id_that_no_header_carries_is_refused(world: World, named: str) -> None:
    posted = {"query": "SELECT n FROM numbers", "context": {"sqlQueryId": named}}
    assert "sqlQueryId" in world.post("/druid/v2/sql", posted, 400)["errorMessage"]


def test_a_client_that_goes_away_while_it_sends_is_no_bug(world: World) -> None:
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    async def post() -> None:
        scope = {"type": "http", "method": "POST", "path": SUPERVISOR, "query_string": b"", "headers": []}
        await build_app(world.parts)(scope, receive, send)

    asyncio.run(post())
    assert sent[0]["status"] == 400


def test_what_is_no_query_at_all_gets_druids_whole_error(world: World) -> None:
    for path, body, kind in (
        ("/druid/v2/sql", b"{", "application/json"),
        ("/druid/v2/sql", b"SELECT 1", "application/xml"),
        ("/druid/v2", b"{", "application/json"),
    ):
        answer = world.http.post(path, content=body, headers={"Content-Type": kind})
        assert answer.status_code == 400
        assert {"error", "errorCode", "persona", "category", "errorMessage", "context"} <= set(answer.json())


def test_the_api_page_tells_every_query_parameter_and_every_body(world: World) -> None:
    paths = world.get("/openapi.json")["paths"]
    routes = [route for methods in paths.values() for route in methods.values()]
    told = {parameter["name"] for route in routes for parameter in route.get("parameters", [])}
    sources = "".join(path.read_text() for path in (ROOT / "server" / "api").glob("*.py"))
    read = set(re.findall(r'(?:flag\(request, |query_params\.get(?:list)?\()"(\w+)"', sources))
    assert len(read) >= 8 and read <= told, read - told
    with_body = {path for path, methods in paths.items() if "requestBody" in methods.get("post", {})}
    assert with_body == {
        SUPERVISOR,
        SUPERVISOR + "/{supervisor}/resetOffsets",
        SUPERVISOR + "/{supervisor}/taskGroups/handoff",
        "/druid/indexer/v1/sampler",
        "/siltstone/v1/plan",
        "/druid/coordinator/v1/lookups/config",
        "/druid/coordinator/v1/lookups/config/{tier}/{name}",
        "/druid/v2",
        "/druid/v2/sql",
        "/druid/coordinator/v1/datasources/{datasource}/markUnused",
        "/druid/coordinator/v1/datasources/{datasource}/markUsed",
    }
    names = [p["name"] for p in paths[SUPERVISOR + "/{supervisor}/history"]["get"]["parameters"]]
    assert sorted(names) == ["count", "supervisor"], "what the framework finds by itself stays"


@pytest.mark.parametrize("digits", ["\u00b2", "\u0663", "9" * 19, "0x1", "-1"])
def test_only_digits_of_ascii_are_numbers(world: World, digits: str) -> None:
    assert "max" in world.get(f"/druid/indexer/v1/tasks?max={digits}", 400)["error"]
    world.post(SUPERVISOR, spec())
    moves = {"partitions": {"type": "end", "stream": "clicks", "partitionOffsetMap": {digits: 1}}}
    assert "partitionOffsetMap" in world.post(f"{SUPERVISOR}/clicks/resetOffsets", moves, 400)["error"]
    moves["partitions"]["partitionOffsetMap"] = {"0": 2**63}
    assert "partitionOffsetMap" in world.post(f"{SUPERVISOR}/clicks/resetOffsets", moves, 400)["error"]


@pytest.mark.parametrize("number", ["a", None, [], {}])
def test_a_malformed_message_of_a_task_is_no_bug(world: World, number: Any) -> None:
    answer = world.http.post(
        "/internal/v1/actions/sequences",
        json={"token": "x", "from_number": number},
        headers={"X-Siltstone-Token": "x"},
    )
    assert answer.status_code == 400 and "malformed" in answer.text
