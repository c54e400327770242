"""The function of a lookup: from keys to their values, one Arrow array at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

Kernel = Callable[..., "pa.Array[Any]"]


def lookup_kernel(pairs: Mapping[str, str]) -> Kernel:
    """The function that gives each key's value, null where there is none; safe from any thread."""

    # The engine evaluates annotations: those of pyarrow's stubs mean nothing at run time.
    def values(keys: Any) -> Any:
        flat = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        # A column has few different keys in a batch: each is looked up once.
        encoded = flat.dictionary_encode()
        found = pa.array([pairs.get(str(key)) for key in encoded.dictionary.to_pylist()], pa.string())
        return found.take(encoded.indices)

    return values
