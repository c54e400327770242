"""Every type that a running Druid 33 tells for a place of a native query is built here or refused by name."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from query.errors import InvalidQuery, QueryError, UnsupportedQuery
from query.native.known_types import KNOWN_TYPES
from tests.conformance.native import answered

RECORDED: dict[str, list[str]] = json.loads((Path(__file__).parent / "druid_native.json").read_text(encoding="utf-8"))
"""Type names by place, and the names of all functions of its expressions (core and druid-datasketches)."""
REFUSED = {
    "query type": {"select", "union", "windowOperator"},
    "aggregator": {"javascript", "stringFirstFold", "stringLastFold"},
    "post-aggregator": {"javascript"},
    "filter": {"javascript", "spatial"},
    "extraction function": {"javascript"},
    "data source": {"restrict"},
    "function": {"hyper_unique", "hyper_unique_add"},
}
ROWS = {"type": "inline", "columnNames": ["__time", "n", "s"], "rows": [[0, 1, "a"]]}
GROUPS: dict[str, Any] = {
    "queryType": "groupBy",
    "dataSource": ROWS,
    "intervals": "1970/2000",
    "granularity": "all",
    "dimensions": [],
    "aggregations": [],
}
ARGUMENTS = {"hyper_unique_add": "'a', 'b'"}


def query(place: str, name: str) -> dict[str, Any]:
    """A query that names the type in its place and says little else of it."""
    part = {"type": name, "name": "x", "fieldName": "n", "dimension": "s"}
    extraction = {"type": "extraction", "dimension": "s", "outputName": "o"}
    call = f"{name}({ARGUMENTS.get(name, '')})"
    changes: dict[str, dict[str, Any]] = {
        "query type": {"queryType": name},
        "aggregator": {"aggregations": [part]},
        "post-aggregator": {"postAggregations": [part]},
        "filter": {"filter": part},
        "extraction function": {"dimensions": [extraction | {"extractionFn": part}]},
        "lookup": {"dimensions": [extraction | {"extractionFn": {"type": "lookup", "lookup": part}}]},
        "virtual column": {"virtualColumns": [part]},
        "having": {"having": part},
        "dimension": {"dimensions": [part]},
        "data source": {"dataSource": part},
        "limit": {"limitSpec": part},
        "intervals": {"intervals": part},
        "metric": {"queryType": "topN", "dimension": "s", "threshold": 1, "metric": part},
        "search query": {"queryType": "search", "query": part},
        "columns to include": {"queryType": "segmentMetadata", "toInclude": part},
        "function": {"postAggregations": [{"type": "expression", "name": "p", "expression": call}]},
    }
    return GROUPS | changes[place]


CALLS = {"hyper_unique_add": "'a', 'b'"}


@pytest.mark.parametrize("place", RECORDED)
def test_what_druid_knows_is_built_or_refused_by_name(place: str) -> None:
    refused = set()
    for name in RECORDED[place]:
        try:
            answered(**query(place, name))
        except UnsupportedQuery as error:
            assert name in error.message
            refused.add(name)
        except QueryError as error:
            # It misses something that the type needs: so the type is known.
            assert isinstance(error, InvalidQuery), (name, error.message)
            assert "is not a type of" not in error.message and "unknown" not in error.message, (name, error.message)
    assert refused == REFUSED.get(place, set())


@pytest.mark.parametrize("what", KNOWN_TYPES)
def test_every_name_that_is_offered_is_a_type_and_the_nearest_is_offered(what: str) -> None:
    place = what.removeprefix("topN ")
    for name in KNOWN_TYPES[what]:
        try:
            answered(**query(place, name))
        except InvalidQuery as error:
            assert "is not a type of" not in error.message, name
        for misspelt in (name[:-1] + "_", name.swapcase()) if len(name) > 3 else (name.upper(),):
            with pytest.raises(InvalidQuery, match="did you mean"):
                answered(**query(place, misspelt))


def post(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "name": kind, "field": {"type": "fieldAccess", "fieldName": "k"}} | members


def ask(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": kind, "name": kind, "fieldName": "k"} | members


def test_approximate_histograms_are_told_in_druids_shapes_and_exact() -> None:
    found = told(
        {"type": "approxHistogram", "fieldName": "n", "numBuckets": 5, "resolution": 50},
        ask("quantile", probability=0.5),
        ask("quantiles", probabilities=[0, 0.5, 1]),
        ask("min"),
        ask("max"),
        ask("buckets", bucketSize=2, offset=0),
        ask("equalBuckets", numBuckets=3),
        ask("customBuckets", breaks=[-1, 1, 4]),
    )
    thirds = {"breaks": [-2.0, 0.0, 2.0, 4.0], "counts": [1.0, 2.0, 2.0]}
    assert found == {
        "k": {"breaks": [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0], "counts": [1.0, 1.0, 1.0, 1.0, 1.0]},
        "quantile": 2.0,
        "quantiles": {"probabilities": [0.0, 0.5, 1.0], "quantiles": [0.0, 2.0, 4.0], "min": 0.0, "max": 4.0},
        "min": 0.0,
        "max": 4.0,
        "buckets": thirds,
        "equalBuckets": thirds,
        "customBuckets": {"breaks": [-1.0, 1.0, 4.0], "counts": [2.0, 3.0]},
    }
    gap = told(
        {"type": "approxHistogram", "fieldName": "n"},
        ask("buckets", bucketSize=1, offset=0.5),
        filter={"type": "in", "dimension": "n", "values": ["0", "1", "4"]},
    )
    assert gap["buckets"] == {"breaks": [-0.5, 0.5, 1.5, 3.5, 4.5], "counts": [1.0, 1.0, 0.0, 1.0]}
    none: Any = {"type": "false"}
    nothing = told({"type": "approxHistogram", "fieldName": "n"}, ask("quantile", probability=0.5), filter=none)
    assert nothing == {"k": None, "quantile": None}


@pytest.mark.parametrize(
    ("mode", "outside", "counts", "ends", "median"),
    [
        ("overflow", (1, 2), [1, 1], (1.0, 2.0), 1.0),
        ("ignore", (0, 0), [1, 1], (1.0, 2.0), 1.0),
        ("clip", (0, 0), [2, 3], (1.0, 3.0), 2.0),
    ],
)
def test_histograms_of_fixed_buckets_are_druids(
    mode: str, outside: tuple[int, int], counts: list[int], ends: tuple[float, float], median: float
) -> None:
    found = told(
        {
            "type": "fixedBucketsHistogram", "fieldName": "n", "numBuckets": 2, "lowerLimit": 1, "upperLimit": 3,
            "outlierHandlingMode": mode,
        },
        ask("quantile", probability=0.5), ask("min"), ask("max"),
    )  # fmt: skip
    assert found.pop("k") == {
        "lowerLimit": 1.0, "upperLimit": 3.0, "numBuckets": 2, "lowerOutlierCount": outside[0], "missingValueCount": 0,
        "upperOutlierCount": outside[1], "histogram": counts, "bucketSize": 1.0, "outlierHandlingMode": mode,
        "count": sum(counts), "min": ends[0], "max": ends[1],
    }  # fmt: skip
    assert found == {"quantile": median, "min": ends[0], "max": ends[1]}


def test_a_fold_unites_the_histograms_of_a_query_inside() -> None:
    days = GROUPS | {
        "dimensions": ["s"],
        "aggregations": [{"type": "approxHistogram", "name": "h", "fieldName": "n"}],
        "dataSource": {"type": "inline", "columnNames": ["__time", "n", "s"], "rows": [[0, 1, "a"], [0, 3, "b"]]},
    }
    found = answered(
        queryType="groupBy", dataSource={"type": "query", "query": days}, intervals="1970/2000", granularity="all",
        dimensions=[], aggregations=[{"type": "approxHistogramFold", "name": "k", "fieldName": "h"}],
        postAggregations=[ask("max"), ask("quantile", probability=0)],
    )  # fmt: skip
    event = found[0]["event"]
    assert (event["max"], event["quantile"]) == (3.0, 1.0)


@pytest.mark.parametrize(
    ("aggregator", "post_aggregator", "named"),
    [
        ({"type": "approxHistogram", "fieldName": "n", "numBuckets": 1}, ask("min"), "numBuckets"),
        ({"type": "approxHistogram", "fieldName": "n", "lowerLimit": 2, "upperLimit": 1}, ask("min"), "upperLimit"),
        ({"type": "fixedBucketsHistogram", "fieldName": "n", "outlierHandlingMode": "clip"}, ask("min"), "numBuckets"),
        ({"type": "approxHistogram", "fieldName": "n"}, ask("quantile", probability=2), "probability"),
        ({"type": "approxHistogram", "fieldName": "n"}, ask("buckets", bucketSize=0), "bucketSize"),
        ({"type": "approxHistogram", "fieldName": "n"}, ask("customBuckets", breaks=[2, 1]), "breaks"),
        ({"type": "longSum", "fieldName": "n"}, ask("quantile", probability=0.5), "needs a histogram"),
        ({"type": "histogram", "fieldName": "n", "breaks": [0, 1e300]}, ask("min"), "beyond 32 bits"),
        ({"type": "KllDoublesSketch", "fieldName": "n"}, post("KllDoublesSketchToQuantile", fraction=2), "fraction"),
        (
            {"type": "KllDoublesSketch", "fieldName": "n"},
            post("KllDoublesSketchToQuantiles", fractions=[-1]),
            "fraction",
        ),
    ],
)
def test_a_histogram_that_cannot_be_is_refused_by_name(
    aggregator: dict[str, Any], post_aggregator: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidQuery, match=named):
        told(aggregator, post_aggregator)


def told(aggregator: dict[str, Any], *posts: dict[str, Any], **changes: Any) -> Any:
    """The answer over the rows a, b, c, a, b with 0 to 4 in ``n`` and its half in ``d``, as Druid was asked."""
    rows = [[at, float(at), at / 2, "abcab"[at]] for at in range(5)]
    source = {"type": "inline", "columnNames": ["__time", "n", "d", "s"], "rows": rows}
    found = answered(
        queryType="timeseries",
        dataSource=source,
        intervals="1970/2100",
        granularity="all",
        aggregations=[aggregator | {"name": "k"}],
        postAggregations=[*posts],
        **changes,
    )[0]["result"]
    return {name.rpartition("To")[2]: value for name, value in found.items()}


def test_kll_sketches_answer_as_druid_does() -> None:
    for kind in ("KllDoublesSketch", "KllFloatsSketch"):
        found = told(
            {"type": kind, "fieldName": "n", "k": 200},
            post(f"{kind}ToQuantile", fraction=0.5),
            post(f"{kind}ToQuantiles", fractions=[0, 0.5, 1]),
            post(f"{kind}ToHistogram", splitPoints=[2.0]),
            post(f"{kind}ToRank", value=2),
            post(f"{kind}ToCDF", splitPoints=[2.0]),
        )
        assert found == {
            "k": 5,
            "Quantile": 2.0,
            "Quantiles": [0.0, 2.0, 4.0],
            "Histogram": [3.0, 2.0],
            "Rank": 0.6,
            "CDF": [0.6, 1.0],
        }


def test_tuple_sketches_tell_what_druid_tells() -> None:
    kind = "arrayOfDoublesSketch"
    found = told(
        {"type": kind, "fieldName": "s", "metricColumns": ["n", "d"], "numberOfValues": 2},
        post(f"{kind}ToBase64String"),
        post(f"{kind}ToMeans"),
        post(f"{kind}ToVariances"),
        post(f"{kind}ToString"),
        {"type": f"{kind}TTest", "name": "p", "fields": [{"type": "fieldAccess", "fieldName": "k"}] * 2},
    )
    assert found["p"] == [1.0, 1.0]
    told_by_druid = [
        "### HeapArrayOfDoublesCompactSketch SUMMARY: ",
        "   Estimate                : 3.0",
        "   Upper Bound, 95% conf   : 3.0",
        "   Lower Bound, 95% conf   : 3.0",
        "   Theta (double)          : 1.0",
        "   Theta (long)            : 9223372036854775807",
        "   EstMode?                : false",
        "   Empty?                  : false",
        "   Retained Entries        : 3",
        "   Seed Hash               : 93cc | 37836",
        "### END SKETCH SUMMARY",
        "",
    ]
    assert found["String"].split("\n") == told_by_druid
    # The same values as in Druid's; it keeps the keys in another order.
    decoded = base64.b64decode(found["Base64String"])
    assert [len(decoded), decoded[:3], decoded[16:24]] == [96, b"\x01\x01\x09", b"\x03" + bytes(7)]
    assert found["Means"] == pytest.approx([10 / 3, 5 / 3]) and found["Variances"] == pytest.approx([7 / 3, 7 / 12])


def test_a_fallback_is_the_first_column_that_there_is() -> None:
    column = {"type": "fallback", "name": "f", "columns": ["none", "s", "n"]}
    found = answered(**GROUPS | {"dimensions": ["f"]}, virtualColumns=[column])
    assert [row["event"] for row in found] == [{"f": "a"}]


@pytest.mark.parametrize(
    ("field", "breaks", "filter_", "counts", "ends"),
    [
        ("n", [0, 1, 2, 3], {"type": "true"}, [1.0, 1.0, 1.0], [0.0, 4.0]),
        ("d", [0.0, 0.5, 1.0], {"type": "true"}, [1.0, 1.0], [0.0, 2.0]),
        ("d", [0.0, 1.0], {"type": "false"}, [0.0], ["Infinity", "-Infinity"]),
    ],
)
def test_a_histogram_of_breaks_is_druids(
    field: str, breaks: list[float], filter_: Any, counts: list[float], ends: list[Any]
) -> None:
    found = told({"type": "histogram", "fieldName": field, "breaks": breaks}, filter=filter_)["k"]
    assert found == {"breaks": breaks, "counts": counts, "quantiles": ends}


def test_a_single_value_is_that_of_the_only_row() -> None:
    only = {"type": "singleValue", "fieldName": "n", "columnType": "DOUBLE"}
    assert told(only, filter={"type": "selector", "dimension": "s", "value": "c"}) == {"k": 2.0}
    with pytest.raises(Exception, match="singleValue of more than one row"):
        told(only)
