"""Druid's own clients and their habits: pydruid in its three forms, Grafana's plugin, Airflow's hooks, curl."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from typing import Any

import pytest
import requests
import sqlalchemy as sa
from pydruid.client import PyDruid
from pydruid.db import connect
from pydruid.db.exceptions import ProgrammingError
from pydruid.utils.aggregators import count, doublesum, filtered, longsum
from pydruid.utils.filters import Dimension, Filter
from pydruid.utils.having import Aggregation
from pydruid.utils.postaggregator import Field

from tests.clients.world import CLICKS, NUMBERS, World, until
from tests.servers.fixtures import missing

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::sqlalchemy.exc.SAWarning"),
]
INTERVAL = "2024-01-01/2024-01-03"
TOTAL = sum(range(CLICKS))
PAGES = sorted(Counter(f'pägé "{n % 7}"' for n in range(CLICKS) if n % 20 != 19).values(), reverse=True)


# -- pydruid, native


def test_pydruids_native_queries(world: World) -> None:
    druid = PyDruid(world.url, "druid/v2/")
    series = druid.timeseries(
        datasource="clicks", granularity="day", intervals=INTERVAL,
        aggregations={"n": count("count"), "added": longsum("added"), "price": doublesum("price")},
        post_aggregations={"mean": Field("added") / Field("n")},
        filter=(Dimension("page") == 'pägé "1"') | ~(Dimension("page") == "x"),
    )  # fmt: skip
    # Whether a page that is null is another than x is unknown.
    known = [n for n in range(CLICKS) if n % 20 != 19]
    assert [bucket["result"]["n"] for bucket in series.result] == [
        sum(n < 144 for n in known),
        sum(n > 143 for n in known),
    ]
    assert sum(bucket["result"]["added"] for bucket in series.result) == sum(known)
    top = druid.topn(
        datasource="clicks", granularity="all", intervals=INTERVAL, dimension="page", metric="n", threshold=3,
        aggregations={"n": count("count"), "late": filtered(Filter(type="bound", dimension="added", lower="100",
                      lowerStrict=False, upper=None, upperStrict=False, alphaNumeric=True), count("count"))},
    )  # fmt: skip
    assert [row["n"] for row in top.result[0]["result"]] == PAGES[:3]
    grouped = druid.groupby(
        datasource="clicks", granularity="all", intervals=INTERVAL, dimensions=["page"],
        aggregations={"n": count("count")}, having=Aggregation("n") > PAGES[-1],
        limit_spec={"type": "default", "limit": 5, "columns": ["page"]},
    )  # fmt: skip
    assert [row["event"]["n"] for row in grouped.result] and all(
        row["event"]["n"] > PAGES[-1] for row in grouped.result
    )
    frame = grouped.export_pandas()
    assert list(frame["n"]) == [row["event"]["n"] for row in grouped.result]


def test_pydruids_scan_and_metadata(world: World) -> None:
    druid = PyDruid(world.url, "druid/v2")
    scanned = druid.scan(
        datasource="clicks", granularity="all", intervals=[INTERVAL], limit=3, columns=["__time", "added"],
        metrics=[], order="ascending",
    )  # fmt: skip
    assert [event["added"] for part in scanned.result for event in part["events"]] == [0, 1, 2]
    [boundary] = druid.time_boundary(datasource="clicks").result
    assert boundary["result"]["minTime"] == "2024-01-01T00:00:00.000Z"
    [analysed] = druid.segment_metadata(datasource="clicks", intervals=INTERVAL, merge=True).result
    assert analysed["numRows"] == CLICKS and analysed["columns"]["added"]["type"] == "LONG"
    with pytest.raises(IOError):
        druid.timeseries(datasource="clicks", granularity="all", intervals="not/intervals", aggregations={})


# -- pydruid's DB-API and SQLAlchemy dialect


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("path", ["/druid/v2/sql", "/druid/v2/sql/"])
def test_pydruids_db_api(world: World, path: str, header: bool) -> None:
    connection = connect(host="127.0.0.1", port=world.port, path=path, scheme="http", header=header, context={"x": "1"})
    cursor = connection.cursor()
    cursor.execute(
        "SELECT page, added, price FROM clicks WHERE page = %(page)s ORDER BY added LIMIT 2", {"page": 'pägé "3"'}
    )
    assert [tuple(row) for row in cursor] == [('pägé "3"', 3, 0.75), ('pägé "3"', 10, 2.5)]
    cursor.execute("SELECT COUNT(*) AS n FROM numbers")
    assert cursor.fetchone()[0] == NUMBERS
    with pytest.raises(ProgrammingError, match="nope"):
        cursor.execute("SELECT nope FROM clicks")
    if header:
        cursor.execute("SELECT page, added FROM clicks WHERE added < 0")
        assert cursor.fetchall() == [] and [column[0] for column in cursor.description] == ["page", "added"]


def test_pydruids_sqlalchemy_dialect_as_superset_uses_it(world: World) -> None:
    engine = sa.create_engine(f"druid://127.0.0.1:{world.port}/druid/v2/sql/?header=true")
    inspector = sa.inspect(engine)
    assert "druid" in inspector.get_schema_names() and sorted(inspector.get_table_names("druid")) == [
        "clicks",
        "numbers",
    ]
    kinds = {column["name"]: str(column["type"]) for column in inspector.get_columns("clicks", "druid")}
    assert kinds["added"] == "BIGINT" and kinds["__time"] == "TIMESTAMP" and kinds["page"] in ("VARCHAR", "STRING")
    with engine.connect() as connection:
        # SQLAlchemy's inspector passes more than this dialect takes.
        has_table: Any = engine.dialect.has_table
        assert has_table(connection, "clicks", schema="druid") and not has_table(connection, "x", schema="druid")
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
        preview = connection.execute(sa.text('SELECT * FROM "druid"."clicks" LIMIT 100')).all()
        assert len(preview) == 100
        chart = sa.text(
            'SELECT TIME_FLOOR(CAST("__time" AS TIMESTAMP), \'P1D\') AS "__timestamp", "page" AS "page", '
            'COUNT(*) AS "count", SUM("added") AS "SUM(added)" FROM "druid"."clicks" '
            "WHERE \"__time\" >= '2024-01-01 00:00:00.000000' AND \"__time\" < '2024-01-02 00:00:00.000000' "
            'GROUP BY "page", TIME_FLOOR(CAST("__time" AS TIMESTAMP), \'P1D\') ORDER BY "count" DESC LIMIT 10000'
        )
        rows = connection.execute(chart).all()
        assert sum(row[2] for row in rows) == 144 and {row[0] for row in rows} == {"2024-01-01T00:00:00.000Z"}
        values = connection.execute(
            sa.text('SELECT DISTINCT "page" AS "column_values" FROM "druid"."clicks" LIMIT 10000')
        )
        assert len(values.all()) == 8


# -- Grafana's plugin (grafadruid), call by call


def grafana(world: World, path: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    answer = requests.post(world.url + path, json=body, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_grafanas_plugin(world: World) -> None:
    status = requests.get(world.url + "/status", timeout=30).json()
    assert isinstance(status["version"], str) and isinstance(status["modules"], list)
    assert {"maxMemory", "totalMemory", "freeMemory", "usedMemory", "directMemory"} <= set(status["memory"])
    assert all(isinstance(value, int) for value in status["memory"].values())
    asked = {
        "queryType": "sql", "query": "SELECT __time, added, price FROM clicks ORDER BY __time LIMIT 2",
        "resultFormat": "array", "header": True, "parameters": [], "context": {"sqlQueryId": "grafana-1"},
    }  # fmt: skip
    rows = grafana(world, "/druid/v2/sql", asked)
    assert rows == [
        ["__time", "added", "price"],
        ["2024-01-01T00:00:00.000Z", 0, 0.0],
        ["2024-01-01T00:10:00.000Z", 1, 0.25],
    ]
    native = {
        "dataSource": {"type": "table", "name": "clicks"},
        "intervals": {"type": "intervals", "intervals": [INTERVAL]},
        "context": {"queryId": "grafana-2"},
    }
    adds = [{"type": "longSum", "name": "added", "fieldName": "added"}]
    series = grafana(world, "/druid/v2", native | {
        "queryType": "timeseries", "granularity": {"type": "period", "period": "P1D"}, "aggregations": adds,
        "filter": {"type": "true"}, "virtualColumns": [], "postAggregations": [],
    })  # fmt: skip
    assert sum(bucket["result"]["added"] for bucket in series) == TOTAL
    scan = native | {"queryType": "scan", "resultFormat": "compactedList", "columns": ["__time", "added"], "limit": 50}
    [only] = grafana(world, "/druid/v2", scan)
    assert only["columns"] == ["__time", "added"] and len(only["events"]) == 50
    top = native | {
        "queryType": "topN", "granularity": "all", "dimension": {"type": "default", "dimension": "page"},
        "metric": "added", "threshold": 2, "aggregations": adds,
    }  # fmt: skip
    [ranked] = grafana(world, "/druid/v2", top)
    assert len(ranked["result"]) == 2 and ranked["timestamp"]
    search = native | {"queryType": "search", "granularity": "all", "searchDimensions": ["page"], "limit": 5,
                       "query": {"type": "insensitive_contains", "value": "GÉ"}}  # fmt: skip
    [hits] = grafana(world, "/druid/v2", search)
    assert hits["result"][0]["dimension"] == "page" and hits["result"][0]["count"] > 0
    [boundary] = grafana(world, "/druid/v2", native | {"queryType": "timeBoundary"})
    assert boundary["result"]["maxTime"] > boundary["result"]["minTime"]
    analysed = grafana(world, "/druid/v2", native | {"queryType": "segmentMetadata", "merge": True})
    assert analysed[0]["numRows"] == CLICKS
    refused = requests.post(world.url + "/druid/v2/sql", json={"query": "SELEC 1"}, timeout=30)
    # Anything but these words makes the plugin ask five more times.
    assert refused.json()["error"] == "SQL parse failed"


# -- Airflow's hooks, by the calls they make


def test_airflows_query_hook(world: World) -> None:
    # DruidDbApiHook.get_conn, then DbApiHook.get_records, get_first and get_df.
    connection = connect(
        host="127.0.0.1", port=world.port, path="/druid/v2/sql", scheme="http", user="me", password="secret",
        context={"sqlFinalizeOuterSketches": True}, ssl_verify_cert=True,
    )  # fmt: skip
    cursor = connection.cursor()
    cursor.execute("SELECT COUNT(*) AS n FROM clicks")
    assert cursor.fetchone()[0] == CLICKS
    cursor.execute("SELECT page, COUNT(*) AS n FROM clicks GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3")
    assert [row[1] for row in cursor.fetchall()] == PAGES[:3]
    cursor.close()
    connection.close()


def test_airflows_ingestion_hook_is_refused_with_an_answer_it_can_log(world: World) -> None:
    # DruidHook posts a batch spec and wants 2xx or a body to log; batches are not what this service does.
    answer = requests.post(world.url + "/druid/indexer/v1/task", json={"type": "index_parallel"}, timeout=30)
    assert 400 <= answer.status_code < 600 and isinstance(answer.json()["error"], str)


# -- curl, as in Druid's documentation


def curl(*words: str) -> str:
    if shutil.which("curl") is None:
        missing("curl", "apt-get install -y curl")
    done = subprocess.run(["curl", "-sS", *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl_as_the_documentation_has_it(world: World) -> None:
    sql = f"{world.url}/druid/v2/sql"
    asked = '{"query": "SELECT COUNT(*) AS TheCount FROM clicks"}'
    expected = [{"TheCount": CLICKS}]
    json_type = "Content-Type: application/json"
    assert json.loads(curl("-X", "POST", "-H", json_type, f"{sql}/", "-d", asked)) == expected
    assert json.loads(curl("--location", "--request", "POST", sql, "--header", json_type, "--data", asked)) == expected
    assert json.loads(curl(sql, "-d", "SELECT COUNT(*) AS TheCount FROM clicks")) == expected
    assert (
        json.loads(curl(sql, "-H", "Content-Type: text/plain", "-d", "SELECT COUNT(*) AS TheCount FROM clicks"))
        == expected
    )
    assert json.loads(curl("--compressed", sql, "-H", json_type, "-d", asked)) == expected
    lines = '{"query": "SELECT added FROM clicks LIMIT 2", "resultFormat": "csv", "header": true}'
    assert curl(sql, "-H", json_type, "-d", lines) == "added\n0\n1\n\n"
    headers = curl("-D", "-", "-o", "/dev/null", sql, "-H", json_type, "-d", asked).lower()
    assert "x-druid-sql-query-id:" in headers and "content-type: application/json" in headers
    native = '{"queryType": "timeBoundary", "dataSource": "clicks"}'
    assert "maxTime" in curl("-X", "POST", f"{world.url}/druid/v2?pretty", "-H", json_type, "-d", native)
    status = curl("-o", "/dev/null", "-w", "%{http_code}", "--request", "DELETE", f"{sql}/no-such-query")
    assert status == "404"


def test_a_curl_that_is_interrupted_frees_its_query(world: World) -> None:
    if shutil.which("curl") is None:
        missing("curl", "apt-get install -y curl")
    endless = "SELECT COUNT(*) FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c"
    asking = subprocess.Popen(["curl", "-sS", f"{world.url}/druid/v2/sql", "-d", endless])
    until(lambda: world.queries_running > 0, "it runs")
    asking.terminate()
    asking.wait(10)
    until(lambda: world.queries_running == 0, "the worker is free")


def test_a_slow_reader_of_many_rows_costs_little_memory(world: World) -> None:
    import psutil

    before = psutil.Process().memory_info().rss
    asked = {"query": "SELECT a.n, b.word FROM numbers a CROSS JOIN numbers b", "resultFormat": "arrayLines"}
    with requests.post(world.url + "/druid/v2/sql", json=asked, stream=True, timeout=30) as answer:
        lines = answer.iter_lines(chunk_size=1 << 16)
        for _ in range(200_000):
            assert next(lines).startswith(b"[")
        # The client stops reading: what the server makes meanwhile must wait in the worker.
        grown = psutil.Process().memory_info().rss - before
    assert grown < 200 << 20, f"{grown >> 20} MiB"
    until(lambda: world.queries_running == 0, "the worker is free")
