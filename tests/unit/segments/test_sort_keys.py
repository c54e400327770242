"""The order of a slice equals sorting whole rows, whichever columns had to be looked at for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segments.identity import DataSource, SegmentId
from segments.interval import Interval
from segments.parquet.columns import Column, Indices, Numbers, PlainTexts, Ranked, coded
from segments.parquet.footer import SegmentFileMeta
from segments.parquet.merge import merge_spills
from segments.parquet.sort_keys import sorted_rows
from segments.parquet.spill import hardly_repeat, with_dictionaries, write_spill
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from tests.searching import examples

LONGS = st.sampled_from([None, 0, 1, 7, 2**41, 2**62, -(2**63), 2**63 - 1])
DOUBLES = st.sampled_from([None, -1.5, 0.0, float("inf"), float("nan")])
TEXTS = st.sampled_from([None, "", "a", "b", "ä", "ab"])


def numbers(values: list[Any], dtype: type) -> Column:
    missing = np.array([value is None for value in values], dtype=np.bool_)
    filled: Any = np.array([0 if value is None else value for value in values], dtype=dtype)
    return Numbers(filled, ~missing if missing.any() else None)


MADE: dict[str, Callable[[list[Any]], Column]] = {
    "long": lambda values: numbers(values, np.int64),
    "double": lambda values: numbers(values, np.float64),
    "coded": lambda values: coded(pa.array(values, pa.string())),
    "plain": lambda values: PlainTexts(pa.array(values, pa.string())),
}


def comparable(value: Any) -> Any:
    if value is None:
        return (0, 0)
    if isinstance(value, str):
        return (1, value.encode())
    return (2, 0) if value != value else (1, value)


@settings(deadline=None, max_examples=examples(40))
@given(
    rows=st.lists(st.tuples(LONGS, DOUBLES, TEXTS, TEXTS), max_size=40),
    kinds=st.permutations([("long", 0), ("double", 1), ("coded", 2), ("plain", 3)]),
    used=st.integers(0, 4),
)
def test_rows_are_ordered_by_all_columns_and_stay_in_order_where_equal(
    rows: list[tuple[Any, ...]], kinds: list[tuple[str, int]], used: int
) -> None:
    columns = [MADE[kind]([row[at] for row in rows]) for kind, at in kinds[:used]]
    keys = [[comparable(row[at]) for _, at in kinds[:used]] for row in rows]
    order, first = sorted_rows(len(rows), columns)
    expected = sorted(range(len(rows)), key=keys.__getitem__)
    assert order.tolist() == expected
    differs = [at == 0 or keys[expected[at]] != keys[expected[at - 1]] for at in range(len(rows))]
    assert first.tolist() == differs


def test_many_rows_of_wide_columns_are_ordered_too() -> None:
    rng = np.random.default_rng(3)
    wide = rng.integers(-(2**60), 2**60, 300)[rng.integers(0, 300, 5_000)]
    texts = [f"t{n}" for n in rng.integers(0, 400, 5_000)]
    close = rng.integers(0, 5, 5_000)
    order, first = sorted_rows(
        5_000, [Numbers(wide, None), coded(pa.array(texts)), Numbers(close, None), Numbers(wide, None)]
    )
    keys = list(zip(wide.tolist(), texts, close.tolist(), strict=True))
    assert order.tolist() == sorted(range(5_000), key=keys.__getitem__)
    assert int(first.sum()) == len(set(keys))


class Watched(PlainTexts):
    """Remembers how many rows it had to rank."""

    ranked: ClassVar[list[int]] = []

    def ranks(self, rows: Indices | None = None) -> Ranked:
        self.ranked.append(len(self.values) if rows is None else len(rows))
        return PlainTexts.ranks(self, rows)


def test_texts_far_back_in_the_order_are_ranked_only_where_rows_are_tied() -> None:
    ids = np.arange(1_000, dtype=np.int64)
    ids[10] = 11
    sorted_rows(1_000, [Numbers(ids, None), Watched(pa.array([f"t{n}" for n in range(1_000)]))])
    assert Watched.ranked == [2]


@pytest.mark.parametrize(
    ("distinct", "encoded", "unique"), [(3, True, False), (5_000, True, False), (10**9, False, True)]
)
def test_a_column_gets_a_dictionary_if_its_texts_repeat(distinct: int, encoded: bool, unique: bool) -> None:
    rng = np.random.default_rng(5)
    texts = pa.array([f"text {n}" for n in rng.integers(0, distinct, 20_000)])
    made = with_dictionaries(pa.table({"t": texts})).column("t").type
    assert (pa.types.is_dictionary(made), hardly_repeat(texts)) == (encoded, unique)


def test_slices_that_meet_in_a_row_group_share_its_dictionary(tmp_path: Path) -> None:
    hour = Interval.parse("2026-01-01T00/PT1H")
    meta = SegmentFileMeta(SegmentId(DataSource("t"), hour, "v1"), ((0, 0, 1),), "t_1_0", 1, 0)
    schema = SegmentSchema.of([ColumnSpec("page", ColumnType.STRING), ColumnSpec("id", ColumnType.STRING)])
    rng = np.random.default_rng(1)
    paths = []
    for minute in range(6):
        # Every minute brings pages of its own, some rows have none.
        made = [None if n == 0 else f"a page of minute {minute}, number {n}" for n in rng.integers(0, 50, 5_000)]
        texts = [f"{n:032x}" for n in rng.integers(0, 2**62, 5_000)]
        times = np.full(5_000, hour.start_ms + minute * 60_000)
        paths.append(tmp_path / f"{minute}.spill")
        write_spill(pa.table({"__time": times, "page": made, "id": texts}), paths[-1])
    result = merge_spills(paths, tmp_path / "out.parquet", schema, None, meta, slice_rows=5_000)
    table = pq.read_table(result.path)
    assert table.schema.field("page").type == table.schema.field("id").type == pa.string()
    expected = pa.concat_tables([pa.ipc.open_file(str(path)).read_all() for path in paths])
    assert sorted(map(str, table.column("id").to_pylist())) == sorted(map(str, expected.column("id").to_pylist()))
    assert table.group_by("page").aggregate([("id", "count")]).num_rows == 6 * 49 + 1
    group = pq.ParquetFile(result.path).metadata.row_group(0)
    found = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert found["page"].total_uncompressed_size < 2 * 30_000 + 300 * 40
    assert "RLE_DICTIONARY" not in found["id"].encodings
    ids, pages = found["id"].statistics, found["page"].statistics
    assert ids is not None and ids.has_min_max
    assert pages is not None and pages.min == "a page of minute 0, number 1"
    assert pages.null_count == sum(value is None for value in table.column("page").to_pylist()) > 0
