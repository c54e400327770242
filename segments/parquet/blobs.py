"""Gathers columns of sketches for a merge: bytes that are moved and united, never compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from segments.arrow_arrays import ArrowArray, array_of
from segments.errors import SpillUnreadable
from segments.sketch.merge import merge_runs
from segments.sketch.shape import SketchShape


@dataclass(frozen=True, slots=True)
class Blobs:
    """A binary column; null where a row has no sketch."""

    values: ArrowArray
    ranks_cheaply = False

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.values.is_valid())

    def ranks(self, rows: npt.NDArray[np.int64] | None = None) -> tuple[npt.NDArray[Any], int]:
        raise AssertionError("sketches are no keys")

    def take(self, order: npt.NDArray[np.int64]) -> "Blobs":
        return Blobs(self.values.take(array_of(order)))

    def to_arrow(self, arrow_type: pa.DataType) -> ArrowArray:
        return self.values

    def united(self, starts: npt.NDArray[np.int64], shape: SketchShape) -> "Blobs":
        """One sketch for each run of rows that begins at one of ``starts``.

        Raises:
            SpillUnreadable: a row holds no sketch of the shape's kind.
        """
        try:
            return Blobs(merge_runs(shape, self.values, starts))
        except ValueError as error:
            raise SpillUnreadable(f"a spill holds {error}; the task reads its rows again from the stream") from error


def join_blobs(parts: Sequence[ArrowArray]) -> Blobs:
    """The parts of a column one after the other."""
    return Blobs(pa.concat_arrays([part.cast(pa.binary()) for part in parts]))
