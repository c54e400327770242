"""Requests over a database that refuses what it is asked, as PostgreSQL does with a NUL character in a name."""

from __future__ import annotations

from typing import Never

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from ingest.clock import SystemClock
from ingest.errors import StoreUnreachable
from ingest.metadata.memory import MemoryMetadataStore
from segments.errors import InvalidValue, ServiceError
from server.api.answers import install_error_answers
from server.api.coordinator import coordinator_router
from server.catalog import StoreCatalog


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
