"""The native query API over the tables of the recorded cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from query.asked import Begun, ignored
from query.errors import QueryTimeout
from query.native.planner import plan
from query.node import NOTHING
from query.session import Seen, read
from query.sql.metadata import NoSystemTables
from server.api.answers import install_error_answers
from server.api.native import native_endpoint, native_router
from server.api.seen import SEEN_HEADER
from tests.conformance import tables
from tests.conformance.engine import run
from tests.conformance.native import catalogue

BOUNDARY = {"queryType": "timeBoundary", "dataSource": "events", "bound": "maxTime"}


class Recorded:
    """A query service over the recorded tables; remembers the ids it saw. A query named ``breaks`` breaks off."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.closed = 0

    def execute_native(
        self,
        query_id: str,
        body: object,
        seen: Mapping[str, Seen] = NOTHING,
        begun: Begun = ignored,
        askers: int = 1,
    ) -> Pieces:
        self.started.append(query_id)
        planned = plan(body, catalogue(), 0)
        batches = run(planned.planned, catalogue(), tables.rows_of, NoSystemTables())
        return Pieces(self, planned.pieces(batches), query_id == "breaks")

    def cancel(self, query_id: str) -> bool:
        self.cancelled.append(query_id)
        return False


class Pieces:
    seen: Mapping[str, Seen] = {"events": Seen(7)}

    def __init__(self, service: Recorded, pieces: Iterator[bytes], breaks: bool) -> None:
        self._service = service
        self._pieces = pieces
        self._breaks = breaks
        self.is_over = False
        self._is_told = False

    def cancel(self) -> None:
        # Who has been told everything hangs up, which the server may still notice.
        assert self._is_told, "nobody cancels these"

    def pieces(self) -> Iterator[bytes]:
        try:
            if self._breaks:
                raise QueryTimeout("too long")
            yield from self._pieces
        finally:
            self._is_told = True

    def close(self) -> None:
        self._service.closed += 1


@pytest.fixture
def service() -> Recorded:
    return Recorded()


@pytest.fixture
def http(service: Recorded) -> TestClient:
    app = FastAPI()
    install_error_answers(app)
    app.include_router(native_router(service, native_endpoint(service)))
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize("path", ["/druid/v2", "/druid/v2/", "/druid/v2/?pretty", "/druid/v2?pretty=true"])
def test_a_native_query_is_answered_at_every_spelling_of_its_path(http: TestClient, path: str) -> None:
    answer = http.post(path, json=BOUNDARY | {"context": {"queryId": "mine"}})
    stamp = "2024-04-03T20:42:09.585Z"
    assert answer.json() == [{"timestamp": stamp, "result": {"maxTime": stamp}}]
    assert answer.headers["x-druid-query-id"] == "mine" and answer.headers["x-druid-response-context"] == "{}"
    assert answer.headers["content-type"] == "application/json"
    assert ("\n  " in answer.text) == ("pretty" in path)


def test_a_query_without_an_id_gets_one(http: TestClient, service: Recorded) -> None:
    named = [http.post("/druid/v2", json=BOUNDARY).headers["x-druid-query-id"] for _ in range(2)]
    assert service.started == named and named[0] != named[1] and service.closed == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"queryType": "no_such_type", "dataSource": "events"}, 400),
        ({"queryType": "select", "dataSource": "events"}, 501),
        ([BOUNDARY], 400),
        (BOUNDARY | {"context": "x"}, 400),
        (BOUNDARY | {"context": {"queryId": "two\nlines"}}, 400),
        (BOUNDARY | {"context": {"queryId": "breaks"}}, 504),
    ],
)
def test_an_error_is_druids_exception_object(http: TestClient, body: Any, status: int) -> None:
    answer = http.post("/druid/v2", json=body)
    assert answer.status_code == status
    assert {"error", "errorMessage", "errorClass", "host", "category"} <= answer.json().keys()


def test_a_body_that_is_not_json_is_a_bad_request(http: TestClient) -> None:
    answer = http.post("/druid/v2", content=b"{not json")
    assert answer.status_code == 400 and answer.json()["category"] == "INVALID_INPUT"


def test_cancelling_says_the_same_of_ids_that_nobody_knows(http: TestClient, service: Recorded) -> None:
    assert http.delete("/druid/v2/no-such-query-id").status_code == 202
    assert service.cancelled == ["no-such-query-id"]


def test_what_an_answer_shows_is_told_to_a_front_that_asks_for_it(http: TestClient) -> None:
    assert SEEN_HEADER not in http.post("/druid/v2", json=BOUNDARY).headers
    answer = http.post("/druid/v2", json=BOUNDARY, headers={SEEN_HEADER: ""})
    assert read(answer.headers[SEEN_HEADER]) == {"events": Seen(7)}
    answer = http.post("/druid/v2", json=BOUNDARY, headers={SEEN_HEADER: "nonsense"})
    assert answer.status_code == 400 and SEEN_HEADER in answer.json()["errorMessage"]
