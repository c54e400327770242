"""Siltstone's own client, its DB-API and its SQLAlchemy dialect, against the HTTP front they were made for."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from siltstone import ApiError, Client, ClientError, dbapi
from tests.clients.world import CLICKS, NUMBERS, World, until

pytestmark = pytest.mark.integration
UTC = datetime.UTC
BEGIN = datetime.datetime(2024, 1, 1, tzinfo=UTC)
LONG = "SELECT COUNT(*) FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c"


@pytest.fixture(scope="module")
def client(world: World) -> Client:
    return Client(world.url, timeout_s=30.0)


@pytest.fixture(scope="module")
def database(world: World) -> sa.Engine:
    return sa.create_engine(f"siltstone://127.0.0.1:{world.port}?sqlTimeZone=Etc/UTC")


def test_rows_parameters_and_contexts(client: Client) -> None:
    sql = "SELECT page, added FROM clicks WHERE added IN (?, ?) AND __time < ? ORDER BY added"
    rows = client.sql(sql, [3, 2, BEGIN + datetime.timedelta(minutes=21)])
    assert rows == [{"page": 'pägé "2"', "added": 2}]
    [row] = client.sql(
        "SELECT TIME_FLOOR(__time, 'P1D') AS d FROM clicks LIMIT 1", context={"sqlTimeZone": "Asia/Tokyo"}
    )
    assert row == {"d": "2024-01-01T00:00:00.000+09:00"}
    counted = {"queryType": "timeseries", "dataSource": "clicks", "intervals": "2000/3000", "granularity": "all"}
    [bucket] = client.native(counted | {"aggregations": [{"type": "count", "name": "n"}]})
    assert bucket["result"] == {"n": CLICKS}


def test_an_arrow_table_has_types_and_a_data_frame_times(client: Client) -> None:
    table = client.arrow("SELECT * FROM clicks ORDER BY __time")
    assert table.num_rows == CLICKS and table.column("tags").to_pylist()[:3] == [None, ["t0"], ["t0", "t1"]]
    assert {name: str(table.schema.field(name).type) for name in table.schema.names} == {
        "__time": "timestamp[ms, tz=UTC]", "page": "string", "tags": "list<item: string>", "added": "int64",
        "price": "double", "weight": "float",
    }  # fmt: skip
    frame = client.dataframe("SELECT __time, SUM(added) AS s FROM clicks GROUP BY 1 ORDER BY 1")
    assert str(frame.dtypes["__time"]) == "datetime64[ms, UTC]" and str(frame.dtypes["s"]) == "int64"
    assert int(frame["s"].sum()) == sum(range(CLICKS))


def test_a_stream_left_early_ends_its_query(world: World, client: Client) -> None:
    with client.stream("SELECT a.n, b.word FROM numbers a CROSS JOIN numbers b") as answer:
        first = next(answer.rows())
        assert first[0] >= 0 and answer.query_id
    until(lambda: world.queries_running == 0, "the worker is free")


def test_a_query_is_cancelled_by_its_id_from_elsewhere(world: World, client: Client) -> None:
    failed: list[Exception] = []

    def ask() -> None:
        try:
            client.sql(LONG, context={"sqlQueryId": "endless"})
        except ApiError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: client.cancel("endless"), "it runs")
    asking.join(20)
    assert isinstance(failed[0], ApiError) and failed[0].body["category"] == "CANCELED"
    assert client.cancel("endless") is False


def test_a_query_cancelled_after_its_first_rows_breaks_off_and_never_looks_whole(client: Client) -> None:
    with client.stream("SELECT a.n, b.word FROM numbers a CROSS JOIN numbers b") as answer:
        batches = iter(answer)
        next(batches)
        assert client.cancel(answer.query_id)
        with pytest.raises(ClientError, match="broke off"):
            for _ in batches:
                pass


def test_refusals_tell_what_is_wrong(client: Client) -> None:
    with pytest.raises(ApiError, match="'nope' not found") as refused:
        client.arrow("SELECT nope FROM clicks")
    assert refused.value.status == 400 and refused.value.body["category"] == "INVALID_INPUT"
    with pytest.raises(ClientError, match="parameter 1 is a object"):
        client.sql("SELECT ?", [object()])
    with pytest.raises(ClientError, match="is it running"):
        Client("http://127.0.0.1:9").arrow("SELECT 1")


def test_the_db_api_describes_fetches_and_translates_errors(world: World) -> None:
    with dbapi.connect(world.url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT __time, page, added, price FROM clicks WHERE added < ? ORDER BY added", [5])
        assert cursor.description is not None
        assert [(name, code) for name, code, *_ in cursor.description] == [
            ("__time", "TIMESTAMP"), ("page", "VARCHAR"), ("added", "BIGINT"), ("price", "DOUBLE"),
        ]  # fmt: skip
        assert cursor.description[0][1] == dbapi.DATETIME and cursor.description[2][1] == dbapi.NUMBER
        assert cursor.fetchone() == (BEGIN, 'pägé "0"', 0, 0.0)
        assert [row[2] for row in cursor.fetchmany(2)] == [1, 2] and [row[2] for row in cursor] == [3, 4]
        assert cursor.fetchone() is None and cursor.fetchall() == []
        assert cursor.execute("SELECT 1 AS x FROM clicks WHERE added < 0").fetchall() == []
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute("SELEC 1")
        with pytest.raises(dbapi.InterfaceError):
            cursor.fetchone()
        with pytest.raises(dbapi.NotSupportedError):
            cursor.executemany("SELECT ?", [[1]])
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect("http://127.0.0.1:9").cursor().execute("SELECT 1")


def test_sqlalchemy_reflects_and_asks(database: sa.Engine) -> None:
    inspector = sa.inspect(database)
    assert "druid" in inspector.get_schema_names() and inspector.get_table_names() == ["clicks", "numbers"]
    assert inspector.has_table("clicks") and not inspector.has_table("nothing")
    kinds = {column["name"]: str(column["type"]) for column in inspector.get_columns("clicks")}
    assert kinds["__time"] == "TIMESTAMP" and kinds["added"] == "BIGINT" and kinds["price"] == "DOUBLE"
    clicks = sa.Table("clicks", sa.MetaData(), autoload_with=database)
    day = sa.func.time_floor(clicks.c.__time, "PT1H").label("hour")
    asked = (
        sa.select(day, clicks.c.page, sa.func.count().label("count"), sa.func.sum(clicks.c.added).label("added"))
        .where(clicks.c.added >= 10, clicks.c.page.like('pägé "%'), clicks.c.page.in_(['pägé "1"', 'pägé "2"']))
        .group_by(day, clicks.c.page)
        .order_by(sa.desc("added"), clicks.c.page)
        .limit(3)
        .offset(1)
    )
    with database.connect() as connection:
        rows = connection.execute(asked).all()
        assert len(rows) == 3 and rows[0].hour.tzinfo is not None and isinstance(rows[0].added, int)
        assert [row.added for row in rows] == sorted((row.added for row in rows), reverse=True)
        case = sa.case((clicks.c.added > 100, "many"), else_="few").label("kind")
        grouped = connection.execute(sa.select(case, sa.func.count()).group_by(case).order_by(case)).all()
        assert [tuple(row) for row in grouped] == [("few", 101), ("many", 99)]
        nothing = sa.select(clicks.c.price).where(clicks.c.price.is_(None), sa.cast(clicks.c.added, sa.String) == "9")
        assert connection.execute(nothing).all() == [(None,)]
        with pytest.raises(sa.exc.ProgrammingError):
            connection.execute(sa.text("SELECT nope FROM clicks"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pandas_reads_by_sqlalchemy(database: sa.Engine) -> None:
    import pandas

    frame: Any = pandas.read_sql("SELECT word, COUNT(*) AS n FROM numbers GROUP BY 1", database)
    assert len(frame) == 97 and int(frame["n"].sum()) == NUMBERS
