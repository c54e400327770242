"""Makes the functions that a statement calls known to an engine, and takes them away again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import duckdb
from duckdb.func import FunctionNullHandling, PythonUDFType

from query.kernels import bloom, histograms, texts, versions
from query.kernels.kernel import Kernel
from query.kernels.lookup import lookup_kernel
from query.model import FunctionUse

Pairs = Callable[[str], Mapping[str, str]]
"""Gives the pairs of a lookup by its name (or by what the caller named it)."""


@contextlib.contextmanager
def offered(connection: duckdb.DuckDBPyConnection, uses: Iterable[FunctionUse], pairs: Pairs) -> Iterator[None]:
    """The functions are there inside; for one thread. Other connections to the same database see them, too."""
    names: list[str] = []
    try:
        for use in uses:
            _create(connection, use, pairs)
            names.append(use.name)
        yield
    finally:
        for name in names:
            connection.remove_function(name)


def _create(connection: duckdb.DuckDBPyConnection, use: FunctionUse, pairs: Pairs) -> None:
    function: Any
    parameters: Any
    if use.lookup:
        function, parameters, result = lookup_kernel(pairs(use.lookup)), ["VARCHAR"], "VARCHAR"
    else:
        found = _kernel(use.name)
        function, parameters, result = found.function, list(found.parameters), found.result
    # Special: a function is asked about nulls as well, in a column or alone.
    connection.create_function(
        use.name,
        function,
        parameters,
        result,
        type=PythonUDFType.ARROW,
        null_handling=FunctionNullHandling.SPECIAL,
    )


def _kernel(name: str) -> Kernel:
    for kernels in (texts.KERNELS, versions.KERNELS, bloom.KERNELS, histograms.KERNELS):
        if name in kernels:
            return kernels[name]
    # Loaded only by who needs it: the library of sketches takes a quarter of a second.
    from query.kernels.sketches import kernel

    return kernel(name)
