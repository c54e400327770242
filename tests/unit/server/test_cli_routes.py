"""Every command that steers a service: which request it makes, what it asks first, and what it prints of the answer."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from server.cli import app

S, X = "/druid/indexer/v1/supervisor", "/druid/indexer/v1"
T = "/siltstone/v1/supervisor"
C, L = "/druid/coordinator/v1/datasources", "/druid/coordinator/v1/lookups"
WORKER = {"worker": {"host": "h:1", "capacity": 4}, "enabled": False, "runningTasks": ["t1", "t2"]}
TOTALS = {"processed": 70, "thrownAwayByReason": {"null": 1}}
STATS = {
    "7": {"t1": {"movingAverages": {"buildSegments": {"1m": {"processed": 2.5}}}, "totals": {"buildSegments": TOTALS}}}
}
HISTORY = [
    {"version": "2026-02-02", "spec": {"type": "NoopSupervisorSpec"}},
    {"version": "2026-01-01", "spec": {"spec": {"ioConfig": {"topicPattern": "a.*"}}}},
]
LOOKUP = {"version": "v1", "lookupExtractorFactory": {"type": "map", "map": {}}}
ANSWERS: dict[str, Any] = {
    f"GET {S}/a%2Fb": {"type": "kafka", "password": "******"},
    f"GET {S}/x/history": HISTORY,
    f"GET {T}/x/audit?limit=5": [{"at": "2026", "action": "reset", "detail": {}}],
    f"GET {T}/x/ledger?limit=20&after=7": [{"sequence": "x.1.0", "ranges": {"eu:0": [0, 5]}, "messages": {}}],
    "GET /status/health": True,
    f"GET {S}/x/status": {"payload": {"healthy": True}},
    f"GET {S}/ill/status": {
        "payload": {"healthy": False, "detailedState": "LOST", "waitingFor": ["a"], "recentErrors": [{"message": "b"}]}
    },
    f"GET {S}/x/stats": STATS,
    f"GET {S}/x/parseErrors": [{"input": "{", "details": ["no JSON"]}],
    f"POST {S}/x/resetToLatestAndBackfill?backfillTaskCount=2": {"id": "x", "backfillSupervisorId": "x_backfill"},
    f"GET {X}/workers": [WORKER],
    f"GET {X}/task/t1/status": {"status": {"id": "t1", "status": "FAILED", "createdTime": "now", "errorMsg": "killed"}},
    f"POST {C}/wiki/markUnused": {"numChangedSegments": 3},
    f"POST {C}/wiki/markUsed": {"numChangedSegments": 2},
    f"GET {L}/config/all": {"__default": {"names": LOOKUP}},
    f"GET {L}/status": {"__default": {"names": {"loaded": True}}},
    f"GET {L}/config/__default/names": LOOKUP,
    f"POST {L}/config/__default/names": LOOKUP,
    "GET /druid/v2/sql/queries": {"queries": [{"sqlQueryId": "q1", "state": "RUNNING", "sql": "SELECT  1"}]},
}


class Service(ThreadingHTTPServer):
    """Answers what is scripted, ``{}`` to everything else, 404 for the id ``none``; ``asked`` is what came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        asked = f"{self.command} {self.path}"
        self.server.asked.append((asked, json.loads(body) if body else None))
        answer = ANSWERS.get(asked, {})
        is_ill = isinstance(answer, dict) and answer.get("healthy") is False
        content = json.dumps(answer).encode()
        is_none = self.path.endswith("/none") or "/status/none/" in self.path
        self.send_response(404 if is_none else 503 if is_ill else 200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 (the library's names)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the library's name)
        """Says nothing."""


@pytest.fixture(scope="module")
def listening() -> Iterator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def service(listening: Service) -> Service:
    listening.asked.clear()
    return listening


def run(service: Service, *words: str, code: int = 0, **named: str) -> str:
    done = CliRunner().invoke(app, [*words, "--url", service.url], **named)  # type: ignore[arg-type]  # e.g. input
    assert done.exit_code == code, done.output
    return done.output


ERRORS = [
    {
        "timeOfExceptionMillis": 1_780_000_000_000 + n,
        "errorType": "ParseException",
        "input": '{"at": "yesterday", "page": "\x1b[31mp' + "x" * 5 * n,
        "details": ["no timestamp", "the column at is not readable as auto: yesterday"],
        "partition": n,
        "offset": 12_345_678,
    }
    for n in range(3)
]
TASK = {"id": "index_kafka_wikipedia_1_0", "dataSource": "wikipedia", "status": "RUNNING"}
SEGMENT = "wikipedia_2015-09-12T00:00:00.000Z_2015-09-12T01:00:00.000Z_2026-11-30T13:00:00.000Z_17"
WIDE: dict[str, Any] = {
    f"GET {S}/x/parseErrors": ERRORS,
    f"GET {S}?full": [
        {
            "id": "wikipedia-of-all-languages",
            "state": "UNHEALTHY_SUPERVISOR",
            "detailedState": "LOST_CONTACT_WITH_STREAM",
            "healthy": False,
            "suspended": False,
        }
    ],
    f"GET {X}/tasks": [{**TASK, "createdTime": "2026-11-30T13:49:27.992Z", "errorMsg": None}] * 2,
    "GET /druid/coordinator/v1/metadata/segments": [{"identifier": SEGMENT, "num_rows": 123_456_789, "size": 10**9}],
    f"GET {T}/x/audit?limit=20": [
        {
            "at": "2026-11-30T13:49:27.992Z",
            "action": "reset-offsets",
            "detail": {"moves": {f"eu:{n}": n for n in range(9)}},
        }
    ],
    f"GET {T}/x/ledger?limit=20&after=0": [
        {"sequence": "wikipedia_1_17", "published": "2026-11-30T13:49:27.992Z", "version": 17, "ranges": {"0": [0, 99]},
         "messages": {"0": {"good": 99}}, "rowsIn": 99, "rowsStored": 99}
    ],
    "GET /druid/v2/sql/queries": {
        "queries": [{"sqlQueryId": "0b7c6f9e-62b6-4e3f-9f0c-1c9a7f0f6a11", "state": "RUNNING", "sql": "SELECT x " * 30}]
    },
}  # fmt: skip


@contextmanager
def a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Iterator[Callable[[], str]]:
    """Standard output is a terminal of so many columns; what came there is told once, at the end."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)

    def read() -> str:
        found = b""
        while select.select([ours], [], [], 0)[0]:
            found += os.read(ours, 65_536)
        return re.sub(r"\x1b\[[0-9;]*m", "", found.decode())

    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        yield read
        monkeypatch.undo()
    os.close(ours)


@pytest.mark.parametrize(
    ("words", "is_table"),
    [
        ("supervisor errors x", True),
        ("supervisor list", False),
        ("supervisor history x", True),
        ("supervisor audit x", True),
        ("supervisor ledger x", False),
        ("supervisor stats x", True),
        ("task list", True),
        ("worker list", True),
        ("segments list", False),
        ("queries", True),
        ("lookups list", True),
    ],
)
def test_at_80_columns_no_line_is_folded_by_the_terminal_and_no_word_is_broken(
    service: Service, monkeypatch: pytest.MonkeyPatch, words: str, is_table: bool
) -> None:
    for path, answer in WIDE.items():
        monkeypatch.setitem(ANSWERS, path, answer)
    wide = run(service, *words.split())
    with a_terminal(monkeypatch, 80) as read:
        with pytest.raises(SystemExit) as ended:
            app([*words.split(), "--url", service.url])
        told = read()
    assert ended.value.code == 0
    assert ("-- row 1\n" in told) is not is_table
    if is_table:
        assert max(map(len, told.splitlines())) <= 80
    assert set(wide.split()) <= {*told.split()} and "\x1b[31m" not in told and "1780000000" not in told


MOVES = {"type": "kafka", "partitions": {"type": "end", "partitionOffsetMap": {"0": 5, "a:b:1": 7}}}
BACKFILL = f"POST {S}/x/resetToLatestAndBackfill?backfillTaskCount=2"


@pytest.mark.parametrize(
    ("words", "request_", "body", "said"),
    [
        ("supervisor spec a/b", f"GET {S}/a%2Fb", None, '"password": "******"'),
        ("supervisor history x", f"GET {S}/x/history", None, "topics that match a.*"),
        ("supervisor audit x --limit 5", f"GET {T}/x/audit?limit=5", None, "reset"),
        ("supervisor ledger x --after 7", f"GET {T}/x/ledger?limit=20&after=7", None, "eu:0"),
        ("supervisor stats x", f"GET {S}/x/stats", None, "2.5"),
        ("supervisor errors x", f"GET {S}/x/parseErrors", None, "no JSON"),
        ("supervisor reset-offsets x 0=5 a:b:1=7 --yes", f"POST {S}/x/resetOffsets", MOVES, "moved 2 partitions of x"),
        (
            "supervisor reset-offsets x 0=5 a:b:1=7 --yes --discard",
            f"POST {S}/x/resetOffsets?discard=true",
            MOVES,
            "moved",
        ),
        ("supervisor reset-to-latest-and-backfill x --tasks 2 --yes", BACKFILL, {}, "x_backfill reads what is skipped"),
        ("supervisor handoff x 7 8", f"POST {S}/x/taskGroups/handoff", {"taskGroupIds": [7, 8]}, "asked groups 7, 8"),
        ("supervisor suspend-all", f"POST {S}/suspendAll", {}, "suspended all"),
        ("supervisor resume-all", f"POST {S}/resumeAll", {}, "resumed all"),
        ("supervisor terminate-all --yes", f"POST {S}/terminateAll", {}, "terminated all"),
        ("health", "GET /status/health", None, "healthy"),
        ("supervisor health x", f"GET {S}/x/status", None, "healthy"),
        ("task status t1", f"GET {X}/task/t1/status", None, "t1: FAILED, since now\nkilled"),
        ("task shutdown t1 --yes", f"POST {X}/task/t1/shutdown", {}, "ended t1"),
        ("worker list", f"GET {X}/workers", None, "t1, t2"),
        (
            "segments mark-unused wiki s1 s2 --yes",
            f"POST {C}/wiki/markUnused",
            {"segmentIds": ["s1", "s2"]},
            "3 segments",
        ),
        (
            "segments mark-used wiki --interval 2026/2027",
            f"POST {C}/wiki/markUsed",
            {"interval": "2026/2027"},
            "2 segments",
        ),
        ("lookups list", f"GET {L}/status", None, "names"),
        ("lookups show names", f"GET {L}/config/__default/names", None, '"version": "v1"'),
        ("lookups remove names --yes", f"DELETE {L}/config/__default/names", None, "removed names"),
        ("queries", "GET /druid/v2/sql/queries", None, "SELECT 1"),
        ("cancel q1", "DELETE /druid/v2/sql/q1", None, "cancelled q1"),
    ],
)
def test_a_command_makes_its_request_and_tells_the_answer(
    service: Service, words: str, request_: str, body: Any, said: str
) -> None:
    told = run(service, *words.split())
    assert service.asked[-1] == (request_, body)
    assert said in told
    if not words.startswith(("supervisor spec", "lookups show")):
        json.loads(run(service, *words.split(), "--json"))


def test_a_lookup_is_put_from_a_file_also_as_the_first_one(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    file.write_text(json.dumps(LOOKUP))
    assert "stored names; the query nodes have not all" in run(
        service, "lookups", "put", "names", str(file), "--wait=0"
    )
    said = run(service, "lookups", "put", "names", str(file), "--wait=0", "--tier=none")
    assert "stored names; the query nodes have not all" in said, "it is stored, whatever is said of it afterwards"
    del service.asked[3:]
    asked = (f"GET {L}/status/__default/names?detailed=true", None)
    assert service.asked == [(f"POST {L}/config", {}), (f"POST {L}/config/__default/names", LOOKUP), asked]


def test_a_lookup_that_cannot_be_loaded_now_is_stored_and_told_where_and_why(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "names.json"
    file.write_text(json.dumps(LOOKUP))
    told = {"loaded": False, "pendingNodes": ["h:1"], "troubles": {"h:1": "/x.csv: No such file or directory"}}
    monkeypatch.setitem(ANSWERS, f"GET {L}/status/__default/names?detailed=true", told)
    said = run(service, "lookups", "put", "names", str(file))
    assert "warning: the query node h:1 cannot load it now: /x.csv: No such file or directory\n" in said
    assert "stored names; the query nodes go on trying" in said
    assert json.loads(run(service, "lookups", "put", "names", str(file), "--json").splitlines()[-1])["troubles"]
    monkeypatch.setitem(ANSWERS, f"GET {L}/status/__default/names?detailed=true", {"loaded": True})
    assert "stored names; every query node has it" in run(service, "lookups", "put", "names", str(file))


@pytest.mark.parametrize(
    "words",
    [
        "supervisor reset-offsets x 0=5",
        "supervisor reset-to-latest-and-backfill x",
        "supervisor terminate-all",
        "task shutdown t1",
        "segments mark-unused wiki s1",
        "lookups remove names",
    ],
)
def test_what_cannot_be_undone_by_a_word_asks_first(service: Service, words: str) -> None:
    for answer in ("n\n", ""):
        assert "error: nothing was" in run(service, *words.split(), code=1, input=answer)
    assert service.asked == []


def test_wrong_words_end_with_2_and_an_unknown_query_with_1(service: Service) -> None:
    for words in ("0", "=5", "0=-1", "0=x"):
        assert "expected PARTITION=OFFSET" in run(service, "supervisor", "reset-offsets", "x", words, "--yes", code=2)
    for more in ([], ["s1", "--interval", "2026/2027"]):
        assert "--interval" in run(service, "segments", "mark-used", "wiki", *more, code=2)
    run(service, "supervisor", "handoff", "x", "one", code=2)
    assert service.asked == []
    assert (
        run(service, "cancel", "none", code=1)
        == "error: no query has the id 'none' now; `siltstone queries` shows those that run\n"
    )


def test_what_is_ill_ends_with_1_and_its_reasons(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(service, "supervisor", "health", "ill", code=1) == "ill: LOST: a; b\n"
    assert json.loads(run(service, "supervisor", "health", "ill", "--json", code=1))["healthy"] is False
    monkeypatch.setitem(ANSWERS, "GET /status/health", {"healthy": False, "faults": {"metadata": "away"}})
    assert run(service, "health", code=1) == "metadata: away\n"
