"""The pool of sandboxed workers: real processes, one query each, that cannot reach out and can die alone."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.clock import SystemClock
from query.binding import ChunkGroup, FileGroup, Relation, bind_rows, bind_table
from query.engine import Engine, EngineSettings
from query.errors import (
    InvalidQuery,
    QueryCancelled,
    QueryCapacityExceeded,
    QueryError,
    QueryFailed,
    QueryTimeout,
    QueryUnavailable,
    ResourceLimitExceeded,
)
from query.model import ColumnUse, TableUse
from query.sql.types import BIGINT, DOUBLE, MULTI_VARCHAR, TIMESTAMP, VARCHAR, SqlType
from query.worker_wire import root_path
from segments.coercion import java_double
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from tests.unit.query.node_steps import until

HUGE = "SELECT count(*) FROM range(200000) a(i), range(200000) b(j) WHERE (i * j) % 7 = 3"
LONG, TEXT, REAL = ColumnType.LONG, ColumnType.STRING, ColumnType.DOUBLE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Everything that an engine could take for a pattern or a partition is in the name of the folder.
    root = tmp_path_factory.mktemp("data") / "user=7" / "c*che[1]?"
    root.mkdir(parents=True)
    return root


@pytest.fixture(scope="module")
def engine(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    os.environ["TZ"], before = "America/New_York", os.environ.get("TZ")
    settings = EngineSettings(
        workers=2, threads=1, memory_bytes=256 << 20, temp_bytes=1 << 20, queued=1, grace_ms=1_500
    )
    pool = Engine(settings, [folder], tmp_path_factory.mktemp("temp"), SystemClock())
    pool.start()
    yield pool
    pool.stop()
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before


def use(**columns: SqlType) -> TableUse:
    """A use of every column; internal names c0, c1, ..."""
    kinds = {"TIMESTAMP": "TIMESTAMP WITH TIME ZONE"}
    uses = [
        ColumnUse(name, f"c{at}", kind, kinds.get(kind.name, kind.duckdb))
        for at, (name, kind) in enumerate(columns.items())
    ]
    return TableUse("druid", "t", "r", tuple(uses))


def schema(*columns: ColumnSpec) -> SegmentSchema:
    return SegmentSchema.of(columns)


def write(folder: Path, name: str, **columns: list[Any]) -> str:
    arrays = {key: pa.array(values) for key, values in columns.items()}
    times = pa.array(range(len(next(iter(columns.values())))), pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"__time": times, **arrays}), folder / name)
    return f"{root_path(0)}/{name}"


def rows(engine: Engine, sql: str, *relations: Relation, timeout_ms: int = 0) -> list[tuple[object, ...]]:
    run = engine.run(sql, relations, timeout_ms)
    return [tuple(row.values()) for batch in run.batches() for row in batch.to_pylist()]


def test_a_statement_reads_its_relation_and_nothing_else(engine: Engine, folder: Path) -> None:
    path = write(folder, "a.parquet", x=[1, 2, 3])
    relation = bind_table(use(x=BIGINT), [FileGroup(schema(ColumnSpec("x", LONG)), (path,))], [])
    assert rows(engine, "SELECT sum(c0) FROM r", relation) == [(6,)]
    with pytest.raises(QueryFailed, match="not one of the statement's relations"):
        rows(engine, "SELECT sum(c0) FROM r")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("WITH w AS (SELECT c0 FROM r WHERE c0 > 1) SELECT sum(w.c0), count(*) FROM w, r", [(15, 6)]),
        (
            " with recursive w AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM w WHERE n < 3) SELECT count(*) FROM w, r",
            [(9,)],
        ),
        ("(SELECT c0 FROM r WHERE c0 = 1) UNION ALL (SELECT c0 FROM r WHERE c0 = 3)", [(1,), (3,)]),
        ("SELECT (SELECT max(c0) FROM r AS i WHERE i.c0 < o.c0) FROM r AS o ORDER BY c0", [(None,), (1,), (2,)]),
        ("VALUES (1), (2)", [(1,), (2,)]),
    ],
)
def test_statements_of_every_shape_read_their_relation(
    engine: Engine, folder: Path, statement: str, expected: list[tuple[object, ...]]
) -> None:
    path = write(folder, "shapes.parquet", x=[1, 2, 3])
    relation = bind_table(use(x=BIGINT), [FileGroup(schema(ColumnSpec("x", LONG)), (path,))], [])
    assert rows(engine, statement, relation) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        f"SELECT * FROM read_parquet('{root_path(0)}/a.parquet')",
        f"SELECT * FROM '{root_path(0)}/a.parquet'",
        f"SELECT (SELECT count(*) FROM glob('{root_path(0)}/*'))",
        f"COPY (SELECT 1) TO '{root_path(0)}/out.csv'",
        "SELECT 1; SELECT 2",
        "ATTACH '/tmp/other.db'",
        "INSTALL httpfs",
        "SET memory_limit = '10GB'",
        "PRAGMA database_list",
        "CREATE TABLE t (x INT)",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM sys",
    ],
)
def test_a_statement_cannot_leave_its_sandbox(engine: Engine, folder: Path, statement: str) -> None:
    write(folder, "a.parquet", x=[1])
    with pytest.raises(QueryError):
        rows(engine, statement)
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    "statement", ["SELECT 9223372036854775807::BIGINT + 1::BIGINT", "SELECT CAST('{broken' AS JSON)"]
)
def test_a_value_that_the_statement_cannot_digest_is_its_own_fault(engine: Engine, statement: str) -> None:
    with pytest.raises(InvalidQuery) as failed:
        rows(engine, statement)
    assert failed.value.status == 400


def test_a_statement_nested_too_deeply_for_the_engine_is_at_fault_itself(engine: Engine) -> None:
    for statement in ("SELECT * FROM (" * 400 + "SELECT 1" + ")" * 400, "SELECT " + "abs(" * 1_100 + "1" + ")" * 1_100):
        with pytest.raises(InvalidQuery, match="nested too deeply"):
            rows(engine, statement)
    assert rows(engine, "SELECT 1") == [(1,)]


def test_even_a_view_opens_only_files_below_the_roots(engine: Engine) -> None:
    for path in ("/etc/passwd", f"{root_path(0)}/../../secret.csv"):
        with pytest.raises(QueryFailed, match="disabled by configuration"):
            rows(engine, "SELECT * FROM r", Relation("r", f"SELECT * FROM read_csv('{path}')"))


def test_names_that_differ_only_in_case_are_different_columns(engine: Engine, folder: Path) -> None:
    both = schema(ColumnSpec("userId", TEXT), ColumnSpec("userid", TEXT), ColumnSpec("USERID", LONG))
    first = write(folder, "u1.parquet", userId=["A", "B"], userid=["x", "y"], USERID=[1, 2])
    second = write(folder, "u2.parquet", userId=["C"], userid=["z"], USERID=[3])
    upper_only = write(folder, "u3.parquet", userId=["D"])
    files = [FileGroup(both, (first, second)), FileGroup(schema(ColumnSpec("userId", TEXT)), (upper_only,))]
    relation = bind_table(use(userid=VARCHAR, userId=VARCHAR, USERID=BIGINT), files, [])
    expected = [("x", "A", 1), ("y", "B", 2), ("z", "C", 3), (None, "D", None)]
    assert rows(engine, "SELECT * FROM r ORDER BY c1", relation) == expected
    assert rows(engine, "SELECT c1 FROM r WHERE c0 = 'z'", relation) == [("C",)]
    assert rows(engine, "SELECT c1 FROM r WHERE c0 = 'Z' OR c2 = 1", relation) == [("A",)]


def test_live_columns_that_differ_only_in_case_are_different_too(engine: Engine, folder: Path) -> None:
    table = pa.table({"userId": ["A"], "userid": pa.array(["x"]).dictionary_encode(), "filename": ["f"]})
    write_chunk(folder, "live.arrow", table)
    group = ChunkGroup(tuple(ColumnSpec(name, TEXT) for name in table.column_names), (f"{root_path(0)}/live.arrow",))
    relation = bind_table(use(userid=VARCHAR, filename=VARCHAR, userId=VARCHAR), [], [group])
    assert rows(engine, "SELECT * FROM r WHERE c0 = 'x'", relation) == [("x", "f", "A")]
    assert rows(engine, "SELECT count(*) FROM r", bind_table(use(), [], [group])) == [(1,)]


def write_chunk(folder: Path, name: str, table: pa.Table) -> None:
    with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def test_a_column_has_one_type_whatever_its_files_hold(engine: Engine, folder: Path) -> None:
    whole = write(folder, "n1.parquet", x=[2**53 + 1, 2])
    real = write(folder, "n2.parquet", x=[1.9, -1.9])
    text = write(folder, "n3.parquet", x=["7", "abc", "12.9"])
    without = write(folder, "n4.parquet", y=[1])
    files = [
        FileGroup(schema(ColumnSpec("x", LONG)), (whole,)),
        FileGroup(schema(ColumnSpec("x", REAL)), (real,)),
        FileGroup(schema(ColumnSpec("x", TEXT)), (text,)),
        FileGroup(schema(ColumnSpec("y", LONG)), (without,)),
    ]
    as_long = rows(engine, "SELECT c0 FROM r ORDER BY c0", bind_table(use(x=BIGINT), files, []))
    assert as_long == [(-1,), (1,), (2,), (7,), (2**53 + 1,), (None,), (None,), (None,)]
    as_text = rows(engine, "SELECT c0 FROM r WHERE c0 IS NOT NULL", bind_table(use(x=VARCHAR), files, []))
    assert {value for (value,) in as_text} == {"9007199254740993", "2", "1.9", "-1.9", "7", "abc", "12.9"}
    as_list = rows(engine, "SELECT c0 FROM r WHERE c0 IS NOT NULL", bind_table(use(x=MULTI_VARCHAR), files, []))
    assert (["abc"],) in as_list


def test_a_live_number_whose_column_has_become_text_is_spelt_as_a_spill_will_spell_it(
    engine: Engine, folder: Path
) -> None:
    odd = [0.0, -0.0, 1.0, 1e-3, 9.5e-4, 1e-4, -1e-5, 9_999_999.0, 1e7, -12_345_678.5, 1e15, 1e16, 2.0**64, 5e-324]
    values: list[float | None] = [*odd, 1.7976931348623157e308, math.inf, -math.inf, math.nan, None]
    values += [math.ldexp(0.7 + at / 1_000, at * 7) for at in range(-140, 140)]
    path = write(folder, "spelt.parquet", x=values)
    group = FileGroup(schema(ColumnSpec("x", REAL)), (path,))
    expected = [None if value is None else java_double(value) for value in values]
    found = rows(engine, "SELECT c1 FROM r ORDER BY c0", bind_table(use(__time=TIMESTAMP, x=VARCHAR), [group], []))
    assert [value for (value,) in found] == expected
    several = bind_table(use(__time=TIMESTAMP, x=MULTI_VARCHAR), [group], [])
    found = rows(engine, "SELECT c1 FROM r ORDER BY c0", several)
    assert [value for (value,) in found] == [None if text is None else [text] for text in expected]


def test_nan_is_found_in_files_with_statistics_as_in_live_rows(engine: Engine, folder: Path) -> None:
    values: list[Any] = [1.0, float("nan"), None]
    path = write(folder, "nan.parquet", x=values)
    write_chunk(folder, "nan.arrow", pa.table({"x": pa.array(values)}))
    column = ColumnSpec("x", REAL)
    published = bind_table(use(x=DOUBLE), [FileGroup(schema(column), (path,))], [])
    live = bind_table(use(x=DOUBLE), [], [ChunkGroup((column,), (f"{root_path(0)}/nan.arrow",))])
    for predicate, count in (("c0 <> 1", 1), ("c0 > 5", 1), ("NOT (c0 < 2)", 1), ("c0 <= 1", 1), ("c0 = 'nan'", 1)):
        for relation in (published, live):
            assert rows(engine, f"SELECT count(*) FROM r WHERE {predicate}", relation) == [(count,)], predicate


def test_the_zone_of_the_host_moves_nothing(engine: Engine, folder: Path) -> None:
    path = write(folder, "time.parquet", x=[1])
    relation = bind_table(use(__time=TIMESTAMP), [FileGroup(schema(ColumnSpec("x", LONG)), (path,))], [])
    statement = "SELECT c0 = CAST('1970-01-01 00:00:00' AS TIMESTAMP WITH TIME ZONE), epoch_ms(c0) FROM r"
    assert rows(engine, statement, relation) == [(True, 0)]


def test_folders_that_look_like_patterns_and_partitions_are_only_folders(engine: Engine, folder: Path) -> None:
    beside = folder.parent / "cache1x"
    beside.mkdir(exist_ok=True)
    path = write(folder, "one.parquet", user=[1])
    write(beside, "one.parquet", user=[2])
    relation = bind_table(use(user=BIGINT), [FileGroup(schema(ColumnSpec("user", LONG)), (path,))], [])
    assert rows(engine, "SELECT c0 FROM r", relation) == [(1,)]


def test_rows_at_hand_are_a_relation(engine: Engine) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"c0": ["x", None], "c1": [1, 2]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    relation = bind_rows(use(a=VARCHAR, b=BIGINT), sink.getvalue().to_pybytes())
    assert rows(engine, "SELECT * FROM r ORDER BY c1", relation) == [("x", 1), (None, 2)]
    assert rows(engine, "SELECT count(*) FROM r", bind_table(use(a=VARCHAR), [], [])) == [(0,)]


def test_a_query_is_stopped_at_its_time_and_the_worker_lives_on(engine: Engine) -> None:
    with pytest.raises(QueryTimeout):
        rows(engine, HUGE, timeout_ms=200)
    assert rows(engine, "SELECT 1") == [(1,)]


def test_a_query_can_be_cancelled_from_another_thread(engine: Engine) -> None:
    outcome: list[object] = []

    def ask() -> None:
        try:
            outcome.append(rows(engine, HUGE))
        except QueryError as error:
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: engine.running == 1)
    for run in engine.runs():
        run.cancel()
    thread.join(10)
    assert isinstance(outcome[0], QueryCancelled)


def test_a_row_that_the_server_could_not_hold_is_not_sent(engine: Engine) -> None:
    with pytest.raises(ResourceLimitExceeded):
        rows(engine, "SELECT repeat('a', 150000000)")
    found = rows(engine, "SELECT length(t), t FROM (SELECT repeat('a', 20000000) AS t FROM (VALUES (1), (2), (3)))")
    assert [length for length, _ in found] == [20_000_000] * 3


def test_too_much_memory_is_a_clear_error(engine: Engine) -> None:
    with pytest.raises(ResourceLimitExceeded, match="more memory"):
        rows(engine, "SELECT count(*) FROM (SELECT DISTINCT i::VARCHAR || repeat('x', 90) FROM range(2000000) t(i))")


def test_a_worker_that_is_killed_costs_one_query(engine: Engine) -> None:
    run = engine.run("SELECT i FROM range(100000000) t(i)", [])
    batches = run.batches()
    next(batches)
    os.kill(run.pid, signal.SIGKILL)
    with pytest.raises(QueryUnavailable, match="died"):
        list(batches)
    assert rows(engine, "SELECT 1") == [(1,)]


def test_a_worker_that_died_idle_costs_no_query(engine: Engine) -> None:
    run = engine.run("SELECT 1", [])
    pid = run.pid
    run.close()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not run.is_alive)
    assert rows(engine, "SELECT 1") == [(1,)]


def test_a_reader_that_leaves_early_gives_its_worker_back_and_hears_so(engine: Engine) -> None:
    run = engine.run("SELECT i FROM range(100000000) t(i)", [])
    closed: list[bool] = []
    run.on_close(lambda: closed.append(True))
    next(run.batches())
    pid = run.pid
    run.close()
    assert closed == [True]
    again = engine.run("SELECT 1", [])
    assert again.pid == pid
    again.close()


def test_a_reader_that_never_reads_does_not_hold_its_worker_past_the_time(engine: Engine) -> None:
    with pytest.raises(QueryTimeout):  # on a busy machine before the first rows are there
        run = engine.run("SELECT i FROM range(100000000) t(i)", [], timeout_ms=100)
        until(lambda: not run.is_alive)
        list(run.batches())


def test_no_more_queries_wait_than_may(engine: Engine) -> None:
    held = [engine.run("SELECT i FROM range(100000000) t(i)", []) for _ in range(2)]
    waiter = threading.Thread(target=rows, args=(engine, "SELECT 1"))
    waiter.start()
    until(lambda: engine.waiting == 1)
    with pytest.raises(QueryCapacityExceeded):
        engine.run("SELECT 1", [])
    for run in held:
        run.close()
    waiter.join(10)
    assert not waiter.is_alive()


def test_workers_end_with_the_pool(folder: Path, tmp_path: Path) -> None:
    pool = Engine(EngineSettings(workers=1, threads=1), [folder], tmp_path / "temp", SystemClock())
    pool.start()
    run = pool.run("SELECT i FROM range(100000000) t(i)", [])
    pool.stop()
    assert not run.is_alive
    with pytest.raises(QueryUnavailable, match="stopping"):
        list(run.batches())
    assert list((tmp_path / "temp").iterdir()) == []


def test_a_server_with_many_descriptors_has_workers_too(folder: Path, tmp_path: Path) -> None:
    # Up to the numbers by which workers name their folders.
    taken = [os.open("/dev/null", os.O_RDONLY)]
    while taken[-1] < 98:
        taken.append(os.open("/dev/null", os.O_RDONLY))
    pool = Engine(EngineSettings(workers=1, threads=1), [folder, folder], tmp_path / "temp", SystemClock())
    pool.start()
    try:
        assert rows(pool, "SELECT 1", timeout_ms=10_000) == [(1,)]
    finally:
        pool.stop()
        for descriptor in taken:
            os.close(descriptor)


def test_a_worker_sees_none_of_the_servers_secrets(engine: Engine) -> None:
    run = engine.run("SELECT i FROM range(100000000) t(i)", [])
    environment = Path(f"/proc/{run.pid}/environ").read_bytes().decode()
    run.close()
    assert "AWS" not in environment and "SILTSTONE" not in environment
