"""Makes Arrow arrays of types that only run time knows, which the type stubs of pyarrow cannot express."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# An Arrow array of any type. The stubs want the element type, which a column of a user's table does not have.
ArrowArray = Any


def array_of(values: npt.NDArray[Any], mask: npt.NDArray[Any] | None = None) -> ArrowArray:
    """An array of a numpy array's values, null where ``mask`` is true; shares memory where it can."""
    return pa.array(values, mask=mask)


def nulls(rows: int, arrow_type: pa.DataType) -> ArrowArray:
    """A column that has no value in any row."""
    untyped: Any = arrow_type
    return pa.nulls(rows, untyped)


def lists_of(offsets: npt.NDArray[Any], flat: ArrowArray, mask: ArrowArray | None = None) -> ArrowArray:
    """Lists over flat values; ``offsets`` are int32 and one more than lists, ``mask`` is true where null."""
    untyped: Any = pa.ListArray
    return untyped.from_arrays(array_of(offsets), flat, mask=mask)


def list_lengths(lists: ArrowArray) -> ArrowArray:
    """The number of values of each list, null where the list is."""
    return pc.list_value_length(lists)


def without_empty(lists: ArrowArray) -> ArrowArray:
    """The lists with null for each that has no members."""
    empty: ArrowArray = np.asarray(pc.fill_null(list_lengths(lists), 1)) == 0
    return pc.if_else(array_of(empty), pa.scalar(None, lists.type), lists)
