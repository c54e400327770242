"""Records that could not be read, as operators see them: over HTTP, in SQL's ``sys`` and on the command line."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import uvicorn
from typer.testing import CliRunner

from ingest.appenderator.decoding.batch import Rejected
from ingest.appenderator.quarantine import join_parts, read_records, write_part
from query.sql.metadata import SYS
from segments.errors import SegmentCorrupt
from server.app import build_app
from server.cli import app
from server.directory import Directory
from server.http_pool import HttpPool
from server.leader_view import LeaderView
from server.peer_view import PeerView
from server.system_tables import StoreSystemTables
from siltstone import Client
from tests.in_process import click, eventually, spec
from tests.unit.server.test_api import SUPERVISOR, World

ROUTE = "/siltstone/v1/quarantine/clicks"
FIRST = [b"{not json", b"\xff\xfe", b"[bad\x1b[2J"]


def has_read(world: World, records: int) -> bool:
    return world.system.records_read() == records


def has_published(world: World, files: int) -> bool:
    return len(world.system.store.quarantine_files("clicks", 10)) == files and not world.system.tasks()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A table with two quarantine files: three records in the older, one in the newer."""
    found = World(tmp_path_factory.mktemp("world"))
    found.post(SUPERVISOR, spec())
    for number, (bad, read) in enumerate(((FIRST, 4), ([b"{later"], 6)), 1):
        found.system.stream.append("clicks", 0, [click(1), *bad])
        eventually(partial(has_read, found, read))
        found.post(f"{SUPERVISOR}/clicks/suspend")
        eventually(partial(has_published, found, number))
        if number == 1:
            found.post(f"{SUPERVISOR}/clicks/resume")
    yield found
    found.system.stop()


@pytest.fixture(scope="module")
def url(world: World) -> Iterator[str]:
    with served(world) as found:
        yield found


@contextmanager
def served(world: World) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(build_app(world.parts), port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.001)
    (listening,) = server.servers
    yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(5)


def run(url: str, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["quarantine", *words, "--url", url])
    assert done.exit_code == code, done.output
    return done.output


def test_files_are_listed_page_by_page_from_the_newest(world: World) -> None:
    whole = world.get(ROUTE)
    assert [file["rows"] for file in whole["files"]] == [1, 3] and whole["next"] is None
    newest, oldest = whole["files"]
    assert newest.keys() == {
        "supervisor",
        "sequence",
        "rows",
        "bytes",
        "created",
        "path",
        "state",
        "replayedBy",
    }
    assert newest["supervisor"] == "clicks" and newest["path"].startswith("_quarantine/clicks/")
    page = world.get(f"{ROUTE}?limit=1")
    assert page["files"] == [newest] and page["next"] == newest["path"]
    page = world.get(f"{ROUTE}?limit=1&before={page['next']}")
    assert page["files"] == [oldest]
    assert world.get(f"{ROUTE}?limit=1&before={page['next']}") == {"table": "clicks", "files": [], "next": None}


def test_records_are_read_page_by_page_with_raw_values(world: World) -> None:
    path = world.get(ROUTE)["files"][1]["path"]
    page = world.get(f"{ROUTE}/records?path={path}&limit=2")
    assert (page["rows"], page["next"]) == (3, 2)
    text, raw = page["records"]
    assert (text["topic"], text["partition"], text["offset"], text["value"]) == ("clicks", 0, 1, "{not json")
    assert text["reason"] and "valueBase64" not in text
    assert raw["value"] is None and base64.b64decode(raw["valueBase64"]) == FIRST[1]
    rest = world.get(f"{ROUTE}/records?path={path}&limit=2&offset=2")
    assert [record["offset"] for record in rest["records"]] == [3] and rest["next"] is None
    assert world.get(f"{ROUTE}/records?path={path}&offset=99")["records"] == []


def test_a_file_is_given_as_it_is_and_nothing_stays_on_disk(world: World) -> None:
    row = world.get(ROUTE)["files"][1]
    answer = world.http.get(f"{ROUTE}/file?path={row['path']}")
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert len(answer.content) == row["bytes"]
    assert pq.read_table(io.BytesIO(answer.content))["value"].to_pylist() == FIRST
    assert not list(world.parts.scratch.glob("quarantine-*"))


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/siltstone/v1/quarantine/nobody", 404, "no table is named 'nobody'"),
        (f"{ROUTE}?limit=0", 400, "limit: '0' is not a whole number from 1 to 1000"),
        (f"{ROUTE}?limit=1001", 400, "limit"),
        (f"{ROUTE}/records", 400, "path: names the file"),
        (f"{ROUTE}/records?path=../secret", 404, "has no quarantine file '../secret'"),
        (f"{ROUTE}/file?path=clicks", 404, "has no quarantine file"),
    ],
)
def test_wrong_questions_are_told_what_is_wrong(world: World, path: str, status: int, says: str) -> None:
    assert says in world.get(path, status)["error"]


def test_sys_quarantine_has_a_row_for_each_file(world: World) -> None:
    pool = HttpPool()
    directory = Directory(world.system.store, world.system.clock, ())
    view, peers = LeaderView(directory, pool, "me:1"), PeerView(directory, pool, "me:1", {})
    rows = list(StoreSystemTables(world.system.store, None, directory, view, peers).rows("quarantine"))
    pool.close()
    files = world.get(ROUTE)["files"]
    assert [row["path"] for row in rows] == [file["path"] for file in files]
    assert [(row["num_rows"], row["size"]) for row in rows] == [(file["rows"], file["bytes"]) for file in files]
    assert all(row.keys() == {column.name for column in SYS["quarantine"]} for row in rows)


def test_the_command_line_lists_shows_and_exports(url: str, tmp_path: Path) -> None:
    files: list[dict[str, Any]] = json.loads(run(url, "list", "clicks", "--json"))
    assert [file["rows"] for file in files] == [1, 3]
    assert files[0]["sequence"] in run(url, "list", "clicks", "--limit", "1")
    shown = json.loads(run(url, "show", "clicks", "--json"))
    assert [record["offset"] for record in shown] == [5, 1, 2, 3]
    people = run(url, "show", "clicks")
    assert "{not json" in people and "\x1b" not in people and r"[bad\x1b[2J" in people
    [one] = json.loads(run(url, "show", "clicks", "--json", "--rows", "1", "--file", files[1]["path"]))
    assert one["offset"] == 1
    folder = tmp_path / "bad" / "records"
    done = json.loads(run(url, "export", "clicks", "--to", str(folder), "--json"))
    assert sorted(str(path) for path in folder.iterdir()) == sorted(entry["file"] for entry in done)
    assert sum(pq.read_table(entry["file"]).num_rows for entry in done) == 4
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    run(url, "export", "clicks", "--to", str(folder))
    assert before == {path: path.stat().st_mtime_ns for path in folder.iterdir()}, "whole files are not copied again"


def test_records_are_replayed_by_the_command_line_once_and_what_is_bad_again_is_listed(tmp_path: Path) -> None:
    world = World(tmp_path)
    posted = spec()
    posted["spec"]["dataSchema"]["timestampSpec"] = {"column": "when"}
    world.post(SUPERVISOR, posted)
    world.system.stream.append("clicks", 0, [click(1), b"{broken", click(2)])
    eventually(partial(has_read, world, 3))
    world.post(f"{SUPERVISOR}/clicks/suspend")
    eventually(partial(has_published, world, 1))
    world.post(SUPERVISOR, {**spec(), "suspended": True})
    with served(world) as url:
        [file] = json.loads(run(url, "list", "clicks", "--json"))
        done = Client(url).replay_quarantine("clicks", file["path"])
        assert (done["records"], done["rows"], done["quarantined"], done["already"]) == (3, 2, 1, False)
        again, old = json.loads(run(url, "list", "clicks", "--json"))
        assert (old["state"], old["replayedBy"], again["state"]) == ("replayed", done["replayedBy"], "kept")
        assert Client(url).replay_quarantine("clicks", old["path"])["already"] is True
        assert again["path"] in run(url, "replay", "clicks") and world.system.rows_published() == 2
        assert "has no quarantine file 'x'" in run(url, "replay", "clicks", "--file", "x", code=1)
    world.post(f"{ROUTE}/replay", status=400)
    assert world.post("/siltstone/v1/verify/clicks")["faults"] == []
    world.system.stop()


def test_what_the_command_line_cannot_find_is_one_line(url: str, tmp_path: Path) -> None:
    assert "no table is named 'nobody'" in run(url, "list", "nobody", code=1)
    assert "has no quarantine file 'x'" in run(url, "show", "clicks", "--file", "x", code=1)
    words = ("export", "clicks", "--to", str(tmp_path / "none"), "--file", "x")
    assert "has no quarantine file 'x'" in run(url, *words, code=1)
    (tmp_path / "file").touch()
    assert "cannot be written" in run(url, "export", "clicks", "--to", str(tmp_path / "file"), code=1)


def test_pages_of_a_file_are_bounded_by_count_and_bytes(tmp_path: Path) -> None:
    def part(first: int, count: int) -> Any:
        records = [Rejected(0, first + at, 2**60 if at else -1, b"x" * 100, "bad") for at in range(count)]
        return write_part(records, "t", tmp_path / f"{first}.parquet")

    path = join_parts([part(0, 150), part(150, 70), part(220, 1)], tmp_path / "whole.parquet").path

    def offsets(*bounds: int) -> list[int]:
        total, found = read_records(path, *bounds)
        assert total == 221
        return [record["offset"] for record in found]

    for skip in (0, 1, 63, 64, 149, 150, 200, 219, 220, 221, 500):
        for limit in (1, 64, 100, 1_000):
            assert offsets(skip, limit, 10**9) == list(range(221))[skip : skip + limit]
    assert offsets(10, 100, 350) == [10, 11, 12]
    assert offsets(10, 100, 1) == [10], "one record at least"
    assert [record["timestamp"] for record in read_records(path, 0, 2, 10**9)[1]] == [None, 2**60]
    (tmp_path / "broken.parquet").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SegmentCorrupt):
        read_records(tmp_path / "broken.parquet", 0, 1, 1)
