"""Lookups on a query node: what is posted is loaded, read again when its source changes, and joined by real workers."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ingest.clock import SystemClock
from query.engine import EngineSettings
from query.errors import InvalidQuery, QueryUnavailable, UnknownName
from query.lookups.cache import LookupCache
from query.lookups.source import LookupSet
from query.lookups.spec import FileFormat, FileSource, InvalidLookup, MapSource, TableSource, parse_lookup
from query.model import SqlRequest
from query.node import NodeSettings, QueryNode
from segments.cache import SegmentCache
from tests.unit.query.memory_table import MemoryTable
from tests.unit.query.rows import ask, one

COUNTRIES = {"type": "map", "map": {"CH": "Switzerland", "JP": "Japan"}}
TSV = {"format": "tsv", "columns": ["_", "k", "v"], "skipHeaderRows": 1, "keyColumn": "k", "valueColumn": "v"}
CUSTOM = {"format": "customJson", "keyFieldName": "k", "valueFieldName": "v"}


@dataclass
class Posted:
    """The lookup source's twin: what is posted and a database, both changed by a test."""

    configurations: dict[str, Any] = field(default_factory=dict)
    change: int = 0
    pairs: dict[str, str] = field(default_factory=dict)
    version: str = "1"
    reads: int = 0

    def post(self, **factories: Any) -> None:
        self.change += 1
        for name, factory in factories.items():
            if factory is None:
                del self.configurations[name]
            else:
                self.configurations[name] = {"version": f"v{self.change}", "lookupExtractorFactory": factory}

    def lookups(self, since: int | None) -> LookupSet | None:
        return None if since == self.change else LookupSet(self.change, dict(self.configurations))

    def table_version(self, source: TableSource) -> str:
        return self.version

    def table_pairs(self, source: TableSource) -> Iterator[tuple[str, str]]:
        self.reads += 1
        yield from self.pairs.items()


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 10 s"
        time.sleep(0.002)


def uri(path: Path, poll: str = "PT1S", **form: Any) -> dict[str, Any]:
    parse = form or {"format": "csv", "columns": ["k", "v"]}
    space = {"type": "uri", "uri": f"file:{path}", "namespaceParseSpec": parse, "pollPeriod": poll}
    return {"type": "cachedNamespace", "extractionNamespace": space}


def jdbc(**changes: Any) -> dict[str, Any]:
    space = {
        "type": "jdbc", "connectorConfig": {"connectURI": "jdbc:postgresql://db/shop", "user": "u", "password": "p"},
        "table": "t", "keyColumn": "k", "valueColumn": "v", "tsColumn": "at", "pollPeriod": "PT1S",
    }  # fmt: skip
    return {"type": "cachedNamespace", "extractionNamespace": space | changes}


def read(cache: LookupCache, name: str) -> int:
    file = cache.pin(name)
    assert file is not None
    cache.unpin(file)
    return file.pairs


# ---------------------------------------------------------------- configurations


def test_a_map_is_read_with_its_version() -> None:
    spec = parse_lookup("c", {"version": "v7", "lookupExtractorFactory": COUNTRIES})
    assert (spec.version, spec.source) == ("v7", MapSource({"CH": "Switzerland", "JP": "Japan"}))


def test_a_file_is_read_with_its_format_and_period() -> None:
    posted = uri(Path("/data/c.tsv"), "PT10M", format="tsv", columns=["a", "b", "c"], keyColumn="c", valueColumn="a")
    form = FileFormat("tsv", "c", "a", ("a", "b", "c"), "\t")
    assert parse_lookup("c", posted).source == FileSource("/data/c.tsv", "", form, 600_000)


def test_all_faults_of_a_configuration_are_told_at_once_with_their_paths() -> None:
    space = {"type": "uri", "uri": "http://h/x", "namespaceParseSpec": {"format": "csv"}, "pollPeriod": "soon"}
    with pytest.raises(InvalidLookup) as refused:
        parse_lookup("c", {"lookupExtractorFactory": {"type": "cachedNamespace", "extractionNamespace": space}})
    told = [problem.partition(": ")[2].partition(":")[0] for problem in refused.value.problems]
    base = "lookupExtractorFactory.extractionNamespace"
    assert told == [f"{base}.uri", f"{base}.namespaceParseSpec.columns", f"{base}.pollPeriod"]


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        ({"type": "kafka"}, "'kafka' is not supported; read the topic into a table"),
        ({"type": "mapp"}, "'mapp' where map or cachedNamespace"),
        ({"type": "map", "map": {"a": [1]}}, "map.a: [1] where a text"),
        (jdbc(connectorConfig={"connectURI": "jdbc:mysql://u:secret@h/d"}), "'jdbc:mysql://h/d' where jdbc:postgresql"),
        (jdbc(table=None), "table: None where a text"),
        (None, "None where an object"),
    ],
)
def test_what_cannot_be_a_lookup_says_why(factory: Any, told: str) -> None:
    with pytest.raises(InvalidLookup) as refused:
        parse_lookup("c", {"version": "v1", "lookupExtractorFactory": factory})
    assert told in str(refused.value) and "secret" not in str(refused.value)


# ---------------------------------------------------------------- sources


@pytest.fixture
def posted() -> Posted:
    return Posted()


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def cache(tmp_path: Path, posted: Posted, clock: Hand) -> Iterator[LookupCache]:
    (tmp_path / "files").mkdir()
    (tmp_path / "chunks").mkdir()
    held = LookupCache(tmp_path / "chunks", posted, [tmp_path / "files"], clock)
    yield held
    held.close()


def test_a_posted_map_is_there_at_once_and_gone_when_it_is_removed(cache: LookupCache, posted: Posted) -> None:
    posted.post(c=COUNTRIES)
    cache.sync()
    file = cache.pin("c")
    assert file is not None and file.pairs == 2 and cache.states()["c"].version == "v1"
    posted.post(c=None)
    cache.sync()
    assert cache.pin("c") is None and cache.names() == []
    assert file.path.exists(), "a query that began before still reads it"
    cache.unpin(file)
    assert not file.path.exists()


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ('CH,Switzerland\nJP,"Japan, land"\n', {"format": "csv", "columns": ["k", "v"]}),
        ("code,name\nCH,Switzerland\nJP,Japan\n", {"format": "csv", "hasHeaderRow": True}),
        ("#\nx\tCH\tSwitzerland\nx\tJP\tJapan\n", TSV),
        ('{"k": "CH", "v": "Switzerland"}\n{"k": "JP", "v": 7}\n', CUSTOM),
        ('{"CH": "Switzerland"}\n\n{"JP": "Japan", "X": null}\n', {"format": "simpleJson"}),
    ],
)  # fmt: skip
def test_every_format_of_files_gives_pairs(cache: LookupCache, posted: Posted, content: str, form: Any) -> None:
    path = cache.root.parent / "files" / "c.gz"
    path.write_bytes(gzip.compress(content.encode()))
    posted.post(c=uri(path, **form))
    cache.sync()
    until(lambda: cache.states()["c"].loaded)
    assert read(cache, "c") == 2


def test_a_file_is_read_again_when_it_has_changed(cache: LookupCache, posted: Posted, clock: Hand) -> None:
    path = cache.root.parent / "files" / "c.csv"
    path.write_text("a,b\n")
    posted.post(c=uri(path))
    cache.sync()
    until(lambda: cache.states()["c"].loaded)
    path.write_text("a,b\nc,d\n")
    cache.sync()
    assert read(cache, "c") == 1, "it is not due"
    clock.at_ms += 1_000
    cache.sync()
    until(lambda: read(cache, "c") == 2)


def test_a_source_that_breaks_leaves_what_was_loaded_and_says_so(
    cache: LookupCache, posted: Posted, clock: Hand
) -> None:
    path = cache.root.parent / "files" / "c.csv"
    path.write_text("a,b\n")
    posted.post(c=uri(path))
    cache.sync()
    until(lambda: cache.states()["c"].loaded)
    path.write_text("a,b\nonly one\n")
    clock.at_ms += 1_000
    cache.sync()
    until(lambda: cache.states()["c"].error != "")
    assert "line 2: 1 fields where 2 are needed" in cache.states()["c"].error and read(cache, "c") == 1


def test_files_outside_the_allowed_folders_are_not_read_by_any_spelling(cache: LookupCache, posted: Posted) -> None:
    folder = cache.root.parent / "files"
    (folder / "link.csv").symlink_to("/etc/passwd")
    for path in ("/etc/passwd", f"{folder}/../../../../../../etc/passwd", f"{folder}/link.csv"):
        posted.post(c=uri(Path(path)))
        cache.sync()
        until(lambda: cache.states()["c"].error != "")
        assert "query.lookup_roots" in cache.states()["c"].error
    with pytest.raises(QueryUnavailable, match="not loaded"):
        cache.pin("c")


def test_of_a_folder_the_newest_fitting_file_is_read(cache: LookupCache, posted: Posted) -> None:
    folder = cache.root.parent / "files"
    for at, (name, content) in enumerate({"c1.csv": "a,b\n", "c2.csv": "a,b\nc,d\n", "other": "x"}.items()):
        (folder / name).write_text(content)
        os.utime(folder / name, (at, at))
    space = {"type": "uri", "uriPrefix": f"file:{folder}", "fileRegex": r"c\d\.csv"}
    space["namespaceParseSpec"] = {"format": "csv", "columns": ["k", "v"]}  # type: ignore[assignment]
    posted.post(c={"type": "cachedNamespace", "extractionNamespace": space})
    cache.sync()
    until(lambda: cache.states()["c"].loaded)
    assert read(cache, "c") == 2


def test_a_table_is_read_again_only_when_its_newest_time_has_changed(
    cache: LookupCache, posted: Posted, clock: Hand
) -> None:
    posted.pairs = {"a": "b"}
    posted.post(c=jdbc())
    cache.sync()
    until(lambda: cache.states()["c"].loaded)
    for _ in range(3):
        clock.at_ms += 1_000
        cache.sync()
    assert posted.reads == 1
    posted.pairs["c"], posted.version = "d", "2"
    clock.at_ms += 1_000
    cache.sync()
    until(lambda: posted.reads == 2)
    until(lambda: read(cache, "c") == 2)


# ---------------------------------------------------------------- statements


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryNode]:
    base = tmp_path_factory.mktemp("node")
    table = MemoryTable(base / "table")
    table.read(table.tasks[0], 9)
    lookups = Posted()
    lookups.post(pages={"type": "map", "map": {"p0": "first", "p1": "second"}}, c=COUNTRIES)
    settings = NodeSettings(sync_ms=20, engine=EngineSettings(workers=1, threads=1, memory_bytes=256 << 20))
    cache = SegmentCache(base / "cache", table.storage, 1 << 30)
    started = QueryNode("n", table, table, cache, base, settings, SystemClock(), lookups=lookups)
    started.start()
    until(lambda: len(started.lookups.states()) == 2 and all(one.loaded for one in started.lookups.states().values()))
    yield started
    started.stop()


def answered(node: QueryNode, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in node.execute(SqlRequest(sql)).batches() for row in batch.to_pylist()]


def test_a_worker_answers_with_lookups_as_functions_and_as_tables(node: QueryNode) -> None:
    sql = "SELECT LOOKUP(page, 'pages', '?'), COUNT(*) FROM wiki GROUP BY 1 ORDER BY 1"
    assert answered(node, sql) == [("?", 3), ("first", 3), ("second", 3)]
    joined = "SELECT l.v, COUNT(*) FROM wiki JOIN lookup.pages l ON page = l.k GROUP BY 1 ORDER BY 1"
    assert answered(node, joined) == [("first", 3), ("second", 3)]
    assert answered(node, "SELECT k, v FROM lookup.c ORDER BY k") == [("CH", "Switzerland"), ("JP", "Japan")]
    assert answered(node, "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'lookup'") == [
        ("c",),
        ("pages",),
    ]


def test_a_worker_answers_native_queries_with_lookups(node: QueryNode) -> None:
    def counted(dimension: Any) -> Any:
        query = {
            "queryType": "groupBy", "dataSource": "wiki", "granularity": "all", "intervals": "2000/3000",
            "dimensions": [dimension], "aggregations": [{"type": "count", "name": "n"}],
        }  # fmt: skip
        answer = json.loads(b"".join(node.execute_native("q", query).pieces()))
        return {one["event"]["d"]: one["event"]["n"] for one in answer}

    plain = {"dimension": "page", "outputName": "d", "name": "pages"}
    assert counted({"type": "lookup"} | plain) == {None: 3, "first": 3, "second": 3}
    assert counted({"type": "lookup", "retainMissingValue": True} | plain) == {"p2": 3, "first": 3, "second": 3}
    function = {"type": "registeredLookup", "lookup": "pages", "replaceMissingValueWith": "-"}
    extracted = {"type": "extraction", "dimension": "page", "outputName": "d", "extractionFn": function}
    assert counted(extracted) == {"-": 3, "first": 3, "second": 3}


def test_an_unknown_lookup_is_refused_with_the_nearest_name(node: QueryNode) -> None:
    for sql in ("SELECT LOOKUP(page, 'page') FROM wiki", "SELECT * FROM lookup.page"):
        with pytest.raises(UnknownName, match="Lookup 'page' not found; did you mean 'pages'"):
            answered(node, sql)


def test_two_uses_of_a_lookup_and_one_of_another_stand_in_one_statement(node: QueryNode) -> None:
    sql = "SELECT LOOKUP('CH', 'c'), LOOKUP('p1', 'pages'), LOOKUP('JP', 'c'), LOOKUP(NULL, 'c')"
    assert answered(node, sql) == [("Switzerland", "second", "Japan", None)]


def test_a_worker_makes_sketches_and_refuses_texts_that_are_none(node: QueryNode) -> None:
    sql = "SELECT page, THETA_SKETCH_ESTIMATE(DS_THETA(added)) FROM wiki GROUP BY 1 ORDER BY 1"
    assert answered(node, sql) == [("p0", 3.0), ("p1", 3.0), ("p2", 3.0)]
    with pytest.raises(InvalidQuery, match="not a theta sketch"):
        answered(node, "SELECT THETA_SKETCH_ESTIMATE(DECODE_BASE64_COMPLEX('thetaSketch', 'aGVsbG8='))")


def test_members_of_a_multi_value_string_are_looked_up_one_by_one() -> None:
    from tests.unit.query import rows

    rows_of = rows.table(mv=[["US", "x", None], []])
    assert ask("SELECT MV_TO_STRING(LOOKUP(mv, 'country_names', '?'), '-') FROM t", rows_of) == [
        ["United States-?-?"],
        ["?"],
    ]
    assert one("LOOKUP('JP', 'country_names')") == "Japan"
