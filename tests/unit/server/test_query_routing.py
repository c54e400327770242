"""Which query node is asked first, and what makes it another one."""

from __future__ import annotations

from typing import Any

from ingest.metadata.records import NodeRecord
from server.query_routing import known_tables, ranked, tables_named


def node(name: str, cached: Any = None, tables: dict[str, int] | None = None) -> NodeRecord:
    detail = {} if cached is None else {"cached": cached}
    return NodeRecord(name, ("query",), f"{name}:1", 0, tables or {}, detail)


def order(nodes: list[NodeRecord], tables: set[str], late: str = "", last: str = "", **running: int) -> str:
    asked = {f"{name}:1": count for name, count in running.items()}
    return "".join(each.node for each in ranked(nodes, set(late), tables, asked, last))


def test_tables_are_found_in_sql_and_in_native_queries() -> None:
    known = {"wiki", "ads.daily", "my-table", "two words", "other", "ümlaut"}
    assert tables_named(b'SELECT COUNT(*) FROM "druid"."wiki" w, ads.daily', known) >= {"wiki"}
    assert tables_named(b'{"query":"SELECT 1 FROM \\"ads.daily\\" JOIN \\"my-table\\""}', known) == {
        "ads.daily",
        "my-table",
    }
    assert tables_named(b'{"queryType":"scan","dataSource":"two words"}', known) == {"two words"}
    assert tables_named('{"dataSource":"ümlaut"}'.encode(), known) == {"ümlaut"}
    assert tables_named(b"SELECT wikipedia FROM others", known) == set()
    assert known_tables([node("a", tables={"x": 1}), node("b", tables={"y": 2})]) == {"x", "y"}


def test_who_holds_the_segments_comes_first_and_who_nearly_does_counts_as_well() -> None:
    nodes = [node("a", {"t": 10}), node("b", {"t": 100}), node("c", {"t": 90, "u": 500}), node("d")]
    assert order(nodes, {"t"}, b=1)[:2] == "cb"
    assert order(nodes, {"t"}, c=1)[:2] == "bc"
    assert order(nodes, {"t", "u"})[0] == "c"
    assert order([node("a", "odd"), node("b", {"t": 1})], {"t"})[0] == "b", "a detail of another version"


def test_of_equal_nodes_the_idle_one_is_asked_and_a_session_stays_where_it_was() -> None:
    nodes = [node("a"), node("b"), node("c")]
    assert order(nodes, {"t"}, a=2, b=0, c=1) == "bca"
    assert order(nodes, {"t"}, last="a:1", a=2, b=0, c=1) == "abc"


def test_idle_nodes_share_the_tables_and_each_table_stays_with_one() -> None:
    nodes = [node("a"), node("b"), node("c")]
    first = [order(nodes, {f"t{number}"})[0] for number in range(60)]
    assert all(first.count(name) > 8 for name in "abc")
    assert first == [order(nodes, {f"t{number}"})[0] for number in range(60)]
    left = [order(nodes[:2], {f"t{number}"})[0] for number in range(60)]
    moved = [before for before, after in zip(first, left, strict=True) if before != after]
    assert set(moved) == {"c"}, "only the tables of the node that left have moved"


def test_a_node_that_is_late_comes_last_whatever_it_holds() -> None:
    nodes = [node("a", {"t": 100}), node("b"), node("c")]
    assert order(nodes, {"t"}, late="a", last="a:1", b=9, c=9)[-1] == "a"
