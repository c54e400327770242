"""Reads messages with one typed struct per schema; rejects, without judging, whatever the struct does not take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec

from ingest.appenderator.decoding.plan import Kind, Plan, Source
from ingest.spec.json_path import follow
from ingest.spec.model import Discovery

_LONG = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_TYPES: Final[dict[Kind, Any]] = {
    Kind.STRING: str | None,
    Kind.LONG: _LONG | None,
    Kind.METRIC_LONG: _LONG | None,
    Kind.DOUBLE: float | None,
    Kind.FLOAT: float | None,
    Kind.METRIC_DOUBLE: float | None,
    Kind.METRIC_FLOAT: float | None,
}
# A field whose values were of another type so often is read untyped from then on.
_WIDEN_AFTER: Final = 16


class FastReader:
    """Rows are structs (or dicts, where fields are to be discovered); ``column`` takes one field out of all of them.

    For one thread. What is accepted never depends on what was read before, only how fast it is.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._misses: dict[str, int] = {}
        self._wide: set[str] = set()
        self._names: dict[str, str] = {}
        self._typed: set[str] = set()
        self._typed_all: set[str] = set()
        self.reads_objects = plan.discovery is not Discovery.NONE
        self._decode: Callable[[Any], Any] = self._decoder()

    def _decoder(self) -> Callable[[Any], Any]:
        if self.reads_objects:
            return msgspec.json.Decoder(dict[str, Any]).decode
        types: dict[str, Any] = {}
        for source, kind in self._sources():
            if source.root is None:
                continue
            typed = _TYPES.get(kind, Any) if kind is not None and not source.rest else Any
            known = types.setdefault(source.root, typed)
            # A root that is read in two ways is read untyped; a second reading of the same type is not.
            if known != typed or source.root in self._wide:
                types[source.root] = Any
        self._names = {root: f"f{at}" for at, root in enumerate(types)}
        struct = msgspec.defstruct(
            "Row",
            [(self._names[root], kind, None) for root, kind in types.items()],
            rename={name: root for root, name in self._names.items()},
            gc=False,
        )
        self._typed = {root for root, kind in types.items() if kind is not Any}
        return msgspec.json.Decoder(struct).decode

    def _sources(self) -> list[tuple[Source, Kind | None]]:
        """What is read from objects: the time, fields that no transform computes, and what transforms read."""
        fields = [(f.source, f.kind) for f in self._plan.fields if f.computed is None]
        read = [(source, None) for transform in self._plan.transforms for _, source in transform.fields]
        return [(self._plan.time, None), *fields, *read]

    def read(self, messages: Sequence[bytes | None]) -> tuple[list[Any], list[int]]:
        """The rows of the accepted messages, in order, and the positions of the others."""
        rows: list[Any] = []
        rejected: list[int] = []
        self._typed_all = self._typed
        remaining = iter(messages)
        while True:
            try:
                rows.extend(map(self._decode, remaining))
                return self._without_broken_text(messages, rows, rejected)
            except (msgspec.MsgspecError, TypeError, UnicodeDecodeError, RecursionError):
                at = len(rows) + len(rejected)
                rejected.append(at)
                self._learn(messages[at])

    def _without_broken_text(
        self, messages: Sequence[bytes | None], rows: list[Any], rejected: list[int]
    ) -> tuple[list[Any], list[int]]:
        """A struct's decoder passes over names it does not know without looking whether they are UTF-8."""
        if self.reads_objects or b"".join(filter(None, messages)).isascii():
            return rows, rejected
        broken = {at for at, message in enumerate(messages) if message and not message.isascii() and _broken(message)}
        broken -= set(rejected)
        if not broken:
            return rows, rejected
        read = [at for at in range(len(messages)) if at not in set(rejected)]
        rows = [row for at, row in zip(read, rows, strict=True) if at not in broken]
        return rows, sorted([*rejected, *broken])

    def is_typed(self, source: Source) -> bool:
        """Whether every value of the field in the rows read last is null or of its column's type."""
        return not source.rest and source.root in self._typed_all

    def _learn(self, message: bytes | None) -> None:
        """Widens a field that keeps coming with another type than expected."""
        if self.reads_objects or not self._typed or message is None:
            return
        try:
            value = msgspec.json.decode(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if not isinstance(value, dict):
            return
        widened = False
        for root in self._typed:
            if type(value.get(root)) not in self._taken(root):
                self._misses[root] = self._misses.get(root, 0) + 1
                if self._misses[root] >= _WIDEN_AFTER:
                    self._wide.add(root)
                    widened = True
        if widened:
            self._decode = self._decoder()
            self._typed_all = self._typed_all & self._typed

    def _taken(self, root: str) -> tuple[type, ...]:
        kind = next(f.kind for f in self._plan.fields if f.source.root == root and f.computed is None)
        if kind is Kind.STRING:
            return (str, type(None))
        if kind in (Kind.LONG, Kind.METRIC_LONG):
            return (int, type(None))
        return (float, int, type(None))

    def column(self, rows: list[Any], source: Source) -> list[Any]:
        """One field's value in every row; None where it is missing."""
        root = source.root
        if root is None:
            return [None] * len(rows)
        if self.reads_objects:
            values = [row.get(root) for row in rows]
        else:
            # A row read before a field was widened is a struct of an older class, with the same names.
            values = list(map(attrgetter(self._names[root]), rows))
        return [follow(source.rest, value) for value in values] if source.rest else values


def _broken(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return True
    return False
