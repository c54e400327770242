"""Odd requests: bodies that are packed or say so, clients that are gone, names that a database refuses."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from typing import Never

import pytest
from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Message

from ingest.clock import SystemClock
from ingest.errors import StoreUnreachable
from ingest.metadata.memory import MemoryMetadataStore
from segments.errors import InvalidValue, ServiceError
from server.api.answers import JsonResponse, install_error_answers
from server.api.coordinator import coordinator_router
from server.api.requests import BODY_BYTES_MAX, json_of
from server.app import Measured
from server.catalog import StoreCatalog
from server.metrics import Metrics


class Refusing(MemoryMetadataStore):
    """A store that answers no question about a table."""

    def __init__(self, error: ServiceError) -> None:
        super().__init__()
        self._error = error

    def segments(self, *words: object, **named: object) -> Never:
        raise self._error

    def table(self, *words: object, **named: object) -> Never:
        raise self._error


@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidValue("a name holds a NUL character"), 400), (StoreUnreachable("away", effect_known_absent=True), 503)],
)
def test_a_list_that_fails_before_its_first_entry_has_an_errors_status(error: ServiceError, status: int) -> None:
    app = FastAPI()
    install_error_answers(app)
    app.include_router(coordinator_router(Refusing(error), None))
    answer = TestClient(app).get("/druid/coordinator/v1/metadata/segments?datasources=a%00b")
    assert answer.status_code == status and answer.json() == {"error": str(error)}


def test_a_table_whose_name_no_database_holds_is_just_not_there() -> None:
    catalog = StoreCatalog(Refusing(InvalidValue("no NUL")), SystemClock(), ("query",), {})
    assert catalog.snapshot("a\0b", None) is None


def echoing() -> TestClient:
    app = FastAPI()
    install_error_answers(app)

    @app.post("/")
    async def echo(request: Request) -> JsonResponse:
        return JsonResponse(await json_of(request))

    return TestClient(app)


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress)]
)
def test_a_packed_body_is_unpacked(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    answer = echoing().post("/", content=pack(b'{"a": 1}'), headers={"Content-Encoding": encoding})
    assert answer.json() == {"a": 1}


@pytest.mark.parametrize(
    ("encoding", "body", "told"),
    [
        ("br", b"{}", "send gzip"),
        ("gzip", b"{}", "is not what its Content-Encoding gzip says"),
        ("gzip", gzip.compress(b"{}", mtime=0)[:-9], "cut short"),
        ("gzip", gzip.compress(b"{}", mtime=0) + b"{}", "goes on after its end"),
        ("gzip", gzip.compress(b" " * (BODY_BYTES_MAX + 1), 1, mtime=0), "larger than"),
    ],
)
def test_a_body_that_cannot_be_unpacked_is_refused_by_name(encoding: str, body: bytes, told: str) -> None:
    answer = echoing().post("/", content=body, headers={"Content-Encoding": encoding})
    assert answer.status_code == 400 and told in answer.json()["error"]


def test_an_answer_to_whom_the_server_has_hung_up_on_is_no_fault() -> None:
    async def gone(message: Message) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    answered = Measured(Response("late"), Metrics())
    asyncio.run(answered({"type": "http", "method": "GET", "path": "/"}, receive, gone))
