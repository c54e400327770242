"""The standard Avatica JDBC driver, run by a small Java program, in both of its serializations."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.world import NUMBERS, World
from tests.servers.fixtures import missing
from tests.servers.servers import avatica_home, avatica_is_there, fetch_avatica

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
PROBE = Path(__file__).parent / "jdbc" / "Probe.java"
TABLE = "druid, druid, {}, TABLE, null, null, null, null, null, null"
EXPECTED = [
    "types: [__time TIMESTAMP 93, d DATE 91, page VARCHAR 12, tags VARCHAR 12, added BIGINT -5, price DOUBLE 8, "
    "weight FLOAT 6, b BOOLEAN 16, a ARRAY 2003]",
    'rows: [[2024-01-01 00:20:00.0, 2024-01-01, pägé "2", ["t0","t1"], 2, 0.5, 0.25, true, [2, 7]], '
    '[2024-01-01 01:30:00.0, 2024-01-01, pägé "2", null, 9, null, 1.125, true, [9, 7]]]',
    "timestamp: 1704067200000 2024-01-01 00:00:00.000 1704067200000",
    f"sum: {NUMBERS * (NUMBERS - 1) // 2} of {NUMBERS}",
    f"paged: {NUMBERS}",
    f"max rows: {[[NUMBERS - 1 - n] for n in range(5)]}",
    "parameters: 6",
    "prepared types: [page VARCHAR 12, added BIGINT -5, price DOUBLE 8]",
    'prepared true: [[pägé "2", 2, 0.5]]',
    'prepared false: [[pägé "0", 0, 0.0], [pägé "1", 1, 0.25], [pägé "2", 2, 0.5]]',
    "by day: [[144]]",
    "product: Avatica",
    "catalogs: [[druid]]",
    "schemas: [[INFORMATION_SCHEMA, druid], [druid, druid], [lookup, druid], [sys, druid], [view, druid]]",
    "table types: [[SYSTEM_TABLE], [TABLE], [VIEW]]",
    f"tables: [[{TABLE.format('clicks')}], [{TABLE.format('numbers')}]]",
    f"one table: [[{TABLE.format('clicks')}]]",
    "system tables: 1",
    "columns: [__time TIMESTAMP 93 1 0, page VARCHAR 12 2 1, tags VARCHAR 12 3 1, added BIGINT -5 4 1, "
    "price DOUBLE 8 5 1, weight FLOAT 6 6 1]",
    "type info: 8",
    "functions: true",
    "elsewhere: true 1704067200000 2023-12-31 16:00:00.000",
    "after errors: [[200]]",
    "end: true",
]


def test_the_jdbc_driver_gets_the_same_answers_by_json_and_by_protobuf(world: World) -> None:
    if shutil.which("java") is None:
        missing("Java", "apt-get install -y default-jdk-headless maven")
    if not avatica_is_there():
        if shutil.which("mvn") is None:
            missing("Maven", "apt-get install -y maven")
        fetch_avatica()
    base = f"jdbc:avatica:remote:url={world.url}/druid/v2/sql"
    urls = [f"{base}/avatica/", f"{base}/avatica-protobuf/;serialization=protobuf"]
    command = ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
    done = subprocess.run(
        [*command, "-cp", f"{avatica_home()}/*", str(PROBE), *urls],
        capture_output=True, text=True, encoding="utf-8", timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told: list[list[str]] = []
    for line in done.stdout.splitlines():
        if line.startswith("begin: "):
            told.append([])
        else:
            told[-1].append(line)
    by_json, by_protobuf = told
    assert by_json == by_protobuf
    errors = [line for line in by_json if line.startswith(("error: ", "too many: "))]
    assert [line for line in by_json if line not in errors] == EXPECTED
    assert "Column 'nope' not found" in errors[0] and "SQL parse failed" in errors[1] and "only SELECT" in errors[2]
    assert "jdbc.connections_max" in errors[3]
    assert len(world.jdbc) == 0 and world.queries_running == 0
