"""JSON paths as Jayway's library for Java reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.spec.json_path import UnsupportedPath, follow, parse_path

STORE: dict[str, Any] = {
    "store": {
        "book": [
            {"category": "reference", "author": "Nigel Rees", "title": "Sayings", "price": 8.95},
            {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword", "price": 12.99, "tags": ["a", "b"]},
            {"category": "fiction", "author": "Herman Melville", "title": "Moby", "isbn": "0-553", "price": 8.99},
            {"category": "fiction", "author": "Tolkien", "title": "Rings", "isbn": "0-395", "price": 22.99, "n": None},
        ],
        "bicycle": {"color": "red", "price": 19.95},
    },
    "limit": 10,
    "odd key": {"x.y": [1, 2, 3]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.limit", 10),
        ("$['odd key']['x.y'][1]", 2),
        ("$.store.book[0].title", "Sayings"),
        ("$.store.book[-1].title", "Rings"),
        ("$.store.book[9].title", None),
        ("$.nothing.at.all", None),
        ("$.store.book[*].author", ["Nigel Rees", "Evelyn Waugh", "Herman Melville", "Tolkien"]),
        ("$.store.*.color", ["red"]),
        ("$..isbn", ["0-553", "0-395"]),
        ("$.store..price", [8.95, 12.99, 8.99, 22.99, 19.95]),
        ("$..book[2].title", ["Moby"]),
        ("$.store.book[0,2].title", ["Sayings", "Moby"]),
        ("$.store.book[1:3].title", ["Sword", "Moby"]),
        ("$.store.book[:1].title", ["Sayings"]),
        ("$.store.book[-1:].title", ["Rings"]),
        ("$.store.bicycle['color','price']", ["red", 19.95]),
        ("$.store.book[?(@.isbn)].title", ["Moby", "Rings"]),
        ("$.store.book[?(!@.isbn)].title", ["Sayings", "Sword"]),
        ("$.store.book[?(@.price < 10)].title", ["Sayings", "Moby"]),
        ("$.store.book[?(@.price < $.limit && @.category == 'fiction')].title", ["Moby"]),
        ('$.store.book[?(@.price > 20 || (@.author == "Nigel Rees"))].title', ["Sayings", "Rings"]),
        ("$.store.book[?(@.author =~ /.*ees/)].title", ["Sayings"]),
        ("$.store.book[?(@.author =~ /tolk.*/i)].title", ["Rings"]),
        ("$.store.book[?(@.title in ['Moby', 'Sword'])].price", [12.99, 8.99]),
        ("$.store.book[?(@.title nin ['Moby', 'Sword'])].price", [8.95, 22.99]),
        ("$.store.book[?(@.tags contains 'a')].title", ["Sword"]),
        ("$.store.book[?(@.tags size 2)].title", ["Sword"]),
        ("$.store.book[?(@.tags anyof ['b', 'z'])].title", ["Sword"]),
        ("$.store.book[?(@.tags subsetof ['a', 'b', 'c'] && @.tags)].title", ["Sword"]),
        ("$.store.book[?(@.price == 1)].title", []),
        ("$..book[?(@.n == null && @.isbn)].title", ["Moby", "Rings"]),
        ("$.store.book.length()", 4),
        ("$['odd key']['x.y'].sum()", 6.0),
        ("$['odd key']['x.y'].max()", 3.0),
        ("$['odd key']['x.y'].min()", 1.0),
        ("$['odd key']['x.y'].avg()", 2.0),
        ("$['odd key']['x.y'].stddev()", 0.816496580927726),
        ("$['odd key']['x.y'].append(4)", [1, 2, 3, 4]),
        ("$.store.bicycle.keys()", ["color", "price"]),
        ("$.store.bicycle.color.concat('!', $.limit)", "red!10"),
        ("$..price.max()", 22.99),
        ("$.nothing.sum()", None),
        ("$", STORE),
    ],
)
def test_a_path_finds_what_it_names(path: str, found: Any) -> None:
    assert follow(parse_path(path), STORE) == found


NESTED = "$" + "[?(@" * 500 + ")]" * 500
BROKEN = ["a.b", " ", "$.", "$..", "$.a[", "$.a[?(@.b]", "$.a[?@.b]", "$.a[b]"]
BROKEN += ["$.a[?(@.b ==)]", "$.a.max().b", "$.a[?(/(/)]", "$ .a"]


@pytest.mark.parametrize("path", [*BROKEN, NESTED])
def test_what_is_no_path_is_told(path: str) -> None:
    with pytest.raises(UnsupportedPath):
        parse_path(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=8,
)
PATHS = ["$.a", "$.a[0].b", "$..a", "$.*", "$.a[?(@.b > 1)].a", "$..[?(@ == 'a')]", "$.a.length()", "$.b.concat('x')"]


@given(st.sampled_from(PATHS), JSON)
def test_a_path_raises_for_no_value(path: str, value: Any) -> None:
    follow(parse_path(path), value)
