"""druid-query-toolkit, the library of Druid's web console: its runner, its statements, its reading of answers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.world import World
from tests.servers.fixtures import missing
from tests.servers.servers import fetch_toolkit, toolkit_home

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
PROGRAM = Path(__file__).parent / "toolkit" / "ask.js"


@pytest.fixture(scope="module")
def told(world: World) -> dict[str, Any]:
    """What the program printed, by the name of the question."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("Node", "apt-get install -y nodejs npm")
    fetch_toolkit()
    done = subprocess.run(
        ["node", str(PROGRAM), str(toolkit_home() / "package"), world.url],
        capture_output=True, text=True, encoding="utf-8", timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_the_console_finds_tables_and_their_columns(told: dict[str, Any]) -> None:
    assert told["console start"]["rows"] == [[1337]]
    assert [table["name"] for table in told["decoded"]["rows"]] == ["clicks", "numbers"]
    kinds = {column["name"]: (column["nativeType"], column["sqlType"]) for column in told["kinds"]["rows"]}
    assert kinds["__time"] == ("LONG", "TIMESTAMP") and kinds["tags"] == ("STRING", "VARCHAR")
    assert kinds["price"] == ("DOUBLE", "DOUBLE") and kinds["weight"] == ("FLOAT", "FLOAT")


def test_statements_that_the_toolkit_builds_are_answered(told: dict[str, Any]) -> None:
    built = told["built"]
    assert built["columns"] == [["t", "LONG", "TIMESTAMP"], ["n", "LONG", "BIGINT"], ["added", "LONG", "BIGINT"]]
    assert built["dates"] == [True, False, False] and built["id"]
    expected: dict[int, list[int]] = {}
    for n in range(3, 90):
        if n % 20 != 19 and n % 7 == 1 and n % 3 >= 1:
            expected.setdefault(n * 10 // 360, []).append(n)
    assert sorted(row[2] for row in built["rows"]) == sorted(sum(group) for group in expected.values())
    assert told["contains"]["rows"] == [[190]]


def test_statements_that_the_toolkit_parsed_and_wrote_again_are_answered(told: dict[str, Any]) -> None:
    assert len(told["parsed"]["rows"]) == 2 and told["parsed"]["dates"] == [False, False, True]
    assert told["with"]["rows"] == [[7]]
    assert told["native"]["rows"] == [["2024-01-01T00:00:00.000Z", 144], ["2024-01-02T00:00:00.000Z", 56]]
    assert told["parameters"]["rows"] == [[12]]


def test_errors_arrive_with_what_the_console_reads(told: dict[str, Any]) -> None:
    error = json.loads(told["wrong"]["error"])
    assert error["category"] == "INVALID_INPUT" and error["context"]["line"] == "1" and "nope" in error["errorMessage"]
