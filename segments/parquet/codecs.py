"""How the columns of a segment file are compressed, by what they are (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from segments.schema import ColumnSpec, ColumnType

Codec = Literal["zstd", "lz4", "none"]
"""Parquet's codecs that are written: zstd at level 1, lz4 in Parquet's raw form, and none."""
ZSTD_LEVEL: Final = 1


@dataclass(frozen=True, slots=True)
class Codecs:
    """A codec for each sort of column; the time column is a dimension here. What is None is as its neighbours."""

    dimensions: Codec = "zstd"
    metrics: Codec = "zstd"
    sketches: Codec | None = None
    documents: Codec | None = None

    def of(self, column: ColumnSpec) -> Codec:
        """The codec of one column."""
        if column.kind == "metric":
            return self.sketches or self.metrics if column.type is ColumnType.COMPLEX else self.metrics
        return self.documents or self.dimensions if column.type is ColumnType.COMPLEX else self.dimensions
