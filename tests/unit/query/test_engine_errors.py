"""How statements end in a real worker: errors by whose fault they are, and small answers like any others."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.clock import SystemClock
from query.clock import Clock
from query.engine import Engine
from query.errors import InvalidQuery, QueryError, QueryTimeout, ResourceLimitExceeded, UnsupportedQuery
from query.runs import Run, Worker
from query.worker_wire import TIRED, Job, Kind, send

HUGE = "SELECT count(*) FROM range(200000) a(i), range(200000) b(j) WHERE (i * j) % 7 = 3"


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("SELECT (SELECT x FROM (VALUES (1), (2)) AS v(x))", InvalidQuery),
        ("SELECT format('{:z}', 'a')", InvalidQuery),
        ("SELECT 9223372036854775807 + x FROM (VALUES (1::BIGINT)) AS v(x)", InvalidQuery),
        ("SELECT x FROM (VALUES (1)) AS v(x) WHERE (SELECT avg(x)) > 0", UnsupportedQuery),
        ("SELECT x FROM (VALUES ('a')) AS v(x) WHERE x LIKE x || '%' ESCAPE '%'", InvalidQuery),
        # A text of 3 GB, of which the engine's own bound does not know.
        ("SELECT length(repeat('ab', 1500000000 + i)) FROM range(1) t(i)", ResourceLimitExceeded),
        # Met when rows are out already.
        ("SELECT 9223372036854745807 + i FROM range(60000) t(i)", InvalidQuery),
        ("SELECT CAST(CASE WHEN i > 50000 THEN 'x' ELSE '1' END AS BIGINT) FROM range(60000) t(i)", InvalidQuery),
    ],
)
def test_what_the_engine_cannot_do_with_a_statement_is_no_fault_of_the_service(
    engine: Engine, statement: str, kind: type[QueryError]
) -> None:
    with pytest.raises(kind) as told:
        list(engine.run(statement, (), 0).batches())
    # Neither the engine's text of the statement nor its advice about settings is the client's business.
    assert "\n" not in told.value.message and "SET " not in told.value.message


def test_a_small_answer_is_the_same_and_ends_like_any_other(engine: Engine) -> None:
    cells = (
        "SUM(i) AS a, CAST(MAX(i) AS DOUBLE) AS b, list(i) AS c, 'é' AS d, epoch_ms(5::BIGINT) AS e, NULL AS f, "
        "[]::VARCHAR[] AS g, CAST('x' AS BLOB) AS h, true AS k, MIN(i) FILTER (i > 9) AS l, CAST(0.1 AS FLOAT) AS m"
    )
    answers = []
    for is_small in (False, True):
        run = engine.run(f"SELECT {cells} FROM range(3) t(i)", [], is_small=is_small)
        answers.append(pa.Table.from_batches(list(run.batches()), run.schema))
    assert answers[0] == answers[1] and answers[0].schema == answers[1].schema
    with pytest.raises(QueryTimeout):
        engine.run(HUGE, [], 200, is_small=True)
    with pytest.raises(InvalidQuery):
        engine.run("SELECT 9223372036854775807::BIGINT + 1::BIGINT", [], is_small=True)
    assert [batch.num_rows for batch in engine.run("SELECT 1", []).batches()] == [1]


class Returned:
    """A pool that notes whether a worker that came back may be used again."""

    clock: Clock = SystemClock()
    reusable = True

    def give_back(self, run: Run, worker: Worker, reusable: bool) -> None:
        self.reusable = reusable
        worker.discard()


@pytest.mark.parametrize(
    ("kind", "is_tired", "reusable"),
    [
        ("InternalException", False, False),
        ("FatalException", False, False),
        ("ConversionException", False, True),
        ("OutOfMemoryException", False, True),
        ("OutOfMemoryException", True, False),
        (None, False, True),
        (None, True, False),
    ],
)
def test_an_engine_that_has_failed_itself_or_is_tired_gets_no_further_statement(
    kind: str | None, is_tired: bool, reusable: bool, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair()
    job, pool = Job(1, "SELECT 1", ()), Returned()
    run = Run(pool, Worker(subprocess.Popen(["sleep", "60"]), ours, str(tmp_path / "left")), job, 0)
    if kind is None:
        send(theirs, Kind.SCHEMA, pa.schema([]).serialize())
        send(theirs, Kind.END, TIRED if is_tired else b"")
        run.begin(job)
        assert list(run.batches()) == []
    else:
        send(theirs, Kind.ERROR, json.dumps({"kind": kind, "message": "it broke", "tired": is_tired}).encode())
        with pytest.raises(QueryError):
            run.begin(job)
    theirs.close()
    assert pool.reusable is reusable


@pytest.mark.parametrize(
    ("kind", "message", "is_memory"),
    [
        ("MemoryError", "", True),
        ("ArrowMemoryError", "malloc of size 60889152 failed", True),
        ("OSError", "Serialization Error: Failed to write JSON string: memory allocation failed", True),
        ("InvalidInputException", "Python exception occurred while executing the UDF: MemoryError: ", True),
        ("ConversionException", "Could not convert string 'bad allocation' to INT64", False),
        ("OSError", "Serialization Error: broken", False),
    ],
)
def test_an_allocation_that_is_refused_is_want_of_memory_whoever_asked(
    kind: str, message: str, is_memory: bool, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair()
    job, pool = Job(1, "SELECT 1", ()), Returned()
    run = Run(pool, Worker(subprocess.Popen(["sleep", "60"]), ours, str(tmp_path / "left")), job, 0)
    send(theirs, Kind.ERROR, json.dumps({"kind": kind, "message": message, "limit": 7}).encode())
    with pytest.raises(QueryError) as told:
        run.begin(job)
    theirs.close()
    assert isinstance(told.value, ResourceLimitExceeded) is is_memory
    # By which a statement that was tried by groups is tried by its rows.
    assert (told.value.context["engineError"] == "OutOfMemoryException") is is_memory
