"""Stored sketches: equal to the library's own bytes, and to each other however they were put together."""

import math

import datasketches
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segments.arrow_arrays import array_of
from segments.sketch import hll, quantiles, theta, tuples
from segments.sketch.answers import estimate, is_sketch
from segments.sketch.build import column_sketch, row_sketches
from segments.sketch.distinct import marks, of_marks
from segments.sketch.merge import merge_all, merge_runs, merge_values
from segments.sketch.shape import SketchKind, SketchShape, kind_of
from segments.sketch.t_test import p_values, two_sided
from tests.searching import examples

HLL = SketchShape(SketchKind.HLL, 12, encoding="utf8")
THETA = SketchShape(SketchKind.THETA, 4096)
QUANTILES = SketchShape.default(SketchKind.QUANTILES)
TUPLE = SketchShape(SketchKind.TUPLE, 4096, values=2)


def library_theta(values: list[str]) -> bytes:
    sketch = datasketches.update_theta_sketch(12)
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact().serialize())


def library_hll(values: list[str] | list[int] | list[float], log_registers: int = 12, name: str = "HLL_4") -> bytes:
    sketch = datasketches.hll_sketch(log_registers, getattr(datasketches, name))
    for value in values:
        sketch.update(value)
    return bytes(sketch.serialize_compact())


@settings(max_examples=examples(25))
@given(st.lists(st.text(min_size=1, max_size=70), min_size=1, max_size=40))
def test_hashes_of_texts_are_the_librarys(values: list[str]) -> None:
    made = row_sketches(THETA, pa.array(values)).to_pylist()
    assert made == [library_theta([value]) for value in values]
    assert row_sketches(HLL, pa.array(values)).to_pylist() == [library_hll([value]) for value in values]
    assert column_sketch(THETA, pa.array(values)) == library_theta(values)


@settings(max_examples=examples(25))
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_infinity=False), min_size=1, max_size=40))
def test_hashes_of_numbers_are_the_librarys(values: list[int | float]) -> None:
    for value in values:
        made = row_sketches(HLL, pa.array([value])).to_pylist()
        assert made == [library_hll([value])]


def test_druids_hll_hashes_the_utf_16_code_units_of_a_text() -> None:
    druid = SketchShape.default(SketchKind.HLL)
    texts = ["abc", "zürich", "😀"]
    as_bytes = pa.array([text.encode("utf-16le") for text in texts], pa.binary())
    assert row_sketches(druid, pa.array(texts)) == row_sketches(HLL, as_bytes)


@pytest.mark.parametrize("name", ["HLL_4", "HLL_6", "HLL_8"])
@pytest.mark.parametrize("log_registers", [4, 7, 8, 12])
def test_a_union_of_single_values_is_the_librarys_sketch_of_all(log_registers: int, name: str) -> None:
    shape = SketchShape(SketchKind.HLL, log_registers, name, "utf8")
    for count in (1, 6, 7, 8, 23, 24, 25, 300, 390, 5_000):
        values = [f"user{at}" for at in range(count)]
        merged = column_sketch(shape, pa.array(values))
        assert merged is not None
        union = datasketches.hll_union(log_registers)
        union.update(datasketches.hll_sketch.deserialize(library_hll(values, max(log_registers, 7))))
        # Small ones are exact but for collisions of 26 bits; larger ones are within the error of their size.
        assert hll.estimate(merged) == pytest.approx(count, rel=3.5 / 2 ** (log_registers / 2), abs=0.01)
        assert datasketches.hll_sketch.deserialize(merged).lg_config_k == log_registers


def test_how_hll_sketches_were_put_together_does_not_change_their_bytes() -> None:
    values = pa.array([f"user{at % 3_000}" for at in range(9_000)])
    shuffled = values.take(array_of(np.random.default_rng(7).permutation(9_000)))
    at_once = column_sketch(HLL, values)
    thirds = [column_sketch(HLL, shuffled.slice(begin, 3_000)) for begin in (0, 3_000, 6_000)]
    assert at_once is not None
    assert estimate(SketchKind.HLL, merge_values(HLL, thirds)) == estimate(SketchKind.HLL, at_once)


def test_theta_keeps_the_smallest_hashes_and_merges_in_any_order() -> None:
    values = pa.array(range(20_000))
    at_once = column_sketch(THETA, values)
    parts = [column_sketch(THETA, values.slice(begin, 5_000)) for begin in (15_000, 0, 5_000, 10_000)]
    assert merge_values(THETA, [None, *parts]) == at_once
    assert at_once is not None and estimate(SketchKind.THETA, at_once) == pytest.approx(20_000, rel=0.05)
    library = datasketches.compact_theta_sketch.deserialize(at_once)
    assert library.get_estimate() == pytest.approx(theta.estimate(at_once))
    low, high = theta.bounds(at_once, 2)[1:]
    assert low < 20_000 < high


def test_set_operations_on_theta_sketches() -> None:
    left, right = (column_sketch(THETA, pa.array(range(start, start + 100))) for start in (0, 60))
    assert left is not None and right is not None
    sizes = {name: theta.estimate(theta.combine(THETA, name, [left, right]) or b"") for name in theta_operations()}
    assert sizes == {"UNION": 160, "INTERSECT": 40, "NOT": 60}


def theta_operations() -> tuple[theta.Operation, ...]:
    return ("UNION", "INTERSECT", "NOT")


def test_quantiles_are_exact_while_few_and_skip_nan() -> None:
    numbers = pa.array([5.0, None, 1.0, float("nan"), 3.0])
    rows = row_sketches(QUANTILES, numbers)
    assert [value is None for value in rows.to_pylist()] == [False, True, False, True, False]
    merged = merge_all(QUANTILES, rows)
    assert merged is not None and merged == column_sketch(QUANTILES, numbers)
    assert quantiles.quantiles(merged, [0.0, 0.5, 1.0]) == [1.0, 3.0, 5.0]
    assert quantiles.count(merged) == 3
    assert quantiles.rank(merged, 3.0) == pytest.approx(2 / 3)
    assert quantiles.histogram(merged, [2.0, 4.0]) == pytest.approx([1, 1, 1])
    assert quantiles.even_points(merged, 4) == [2.0, 3.0, 4.0]


def test_tuple_sketches_add_the_numbers_of_equal_keys() -> None:
    keys = pa.array(["a", "b", "a", None, ""])
    ones, prices = pa.array([1.0] * 5), pa.array([10, 20, None, 5, 5])
    merged = merge_all(TUPLE, row_sketches(TUPLE, keys, [ones, prices]))
    assert merged is not None
    assert (tuples.estimate(merged), tuples.sums(merged)) == (2, [3.0, 30.0])
    assert tuples.means(merged) == [1.5, 15.0]
    again = tuples.combine(TUPLE, "INTERSECT", [merged, merged])
    assert again is not None and tuples.sums(again) == [6.0, 60.0]
    assert tuples.combine(TUPLE, "NOT", [merged, merged]) == tuples.write(
        tuples.Entries(theta.WHOLE, np.empty(0, np.uint64), np.empty((0, 2)))
    )


def test_a_list_counts_each_of_its_values_and_an_empty_one_none() -> None:
    column = pa.array([["a", "b", "a"], [], None, [None], ["c"]])
    rows = row_sketches(HLL, column).to_pylist()
    assert [estimate(SketchKind.HLL, row) for row in rows] == pytest.approx([2, 0, 0, 0, 1], abs=1e-3)


@pytest.mark.parametrize("shape", [HLL, THETA, QUANTILES, SketchShape.default(SketchKind.TUPLE)])
def test_runs_merge_as_their_rows_do(shape: SketchShape) -> None:
    column = pa.array([1.5, 1.5, None, 2.5, None, None, 7.0, 8.0, 9.0])
    rows = row_sketches(shape, column, [column] * shape.values)
    starts = np.array([0, 3, 4, 6])
    runs = [rows.slice(begin, length) for begin, length in ((0, 3), (3, 1), (4, 2), (6, 3))]
    merged = merge_runs(shape, rows, starts)
    assert merged.to_pylist() == [merge_all(shape, run) for run in runs]
    # Merged ones merge again, with single ones among them.
    assert merge_all(shape, merged) == merge_all(shape, rows)


@pytest.mark.parametrize("kind", list(SketchKind))
def test_bytes_that_are_no_sketch_are_told_apart(kind: SketchKind) -> None:
    for junk in (b"", b"\0" * 8, b"\xff" * 40, b"not a sketch"):
        assert not is_sketch(kind, junk)


def test_type_names_lead_to_their_kind() -> None:
    assert kind_of("hyperUnique") is kind_of("HLLSketchMerge") is SketchKind.HLL
    assert kind_of("thetaSketch") is SketchKind.THETA
    assert kind_of("json") is None
    with pytest.raises(ValueError, match="a power of two from 16"):
        SketchShape(SketchKind.THETA, 1000)


@pytest.mark.parametrize("kind", [SketchKind.HLL, SketchKind.THETA])
@given(values=st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=60))
def test_marks_put_together_are_the_sketch_of_the_values(kind: SketchKind, values: list[str | None]) -> None:
    shape = SketchShape(kind, 4 if kind is SketchKind.HLL else 16)
    column = pa.array(values, pa.string())
    whole, made = column_sketch(shape, column), of_marks(shape, marks(shape, column))
    assert (made is None) == (whole is None)
    if made is not None and whole is not None:
        assert estimate(kind, made) == estimate(kind, whole)


@pytest.mark.parametrize(
    ("t", "freedom", "share"),
    [
        (1.0, 1.0, 0.5), (12.706204736, 1.0, 0.05), (2.228138852, 10.0, 0.05), (-2.228138852, 10.0, 0.05),
        (1.959963985, 1e8, 0.05), (0.0, 3.5, 1.0), (3.169272673, 10.0, 0.01), (1e9, 4.0, 0.0),
    ],
)  # fmt: skip
def test_students_distribution_has_the_shares_of_its_tables(t: float, freedom: float, share: float) -> None:
    assert two_sided(t, freedom) == pytest.approx(share, abs=1e-8)


def test_means_of_tuple_sketches_are_compared_by_welchs_test() -> None:
    def sketch(*numbers: float) -> bytes:
        values = np.asarray([[number, 1.0] for number in numbers])
        return tuples.write(tuples.Entries(theta.WHOLE, np.arange(1, len(numbers) + 1, dtype=np.uint64), values))

    one, other = sketch(27.5, 21.0, 19.0, 23.6, 17.0, 17.9), sketch(27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8)
    first, same = p_values(one, other)
    # Without spread there is nothing to judge the same means by.
    assert first == pytest.approx(0.1749336, abs=1e-7) and math.isnan(same)
    assert all(math.isnan(value) for value in p_values(one, sketch(1.0)))
    single = tuples.write(tuples.Entries(theta.WHOLE, np.asarray([1, 2], np.uint64), np.ones((2, 1))))
    with pytest.raises(ValueError, match="different numbers"):
        p_values(one, single)
