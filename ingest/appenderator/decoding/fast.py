"""Reads messages with one typed struct per schema; rejects, without judging, whatever the struct does not take."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, cast

import msgspec

from ingest.appenderator.decoding.plan import Kind, Plan, Source, value_at
from ingest.appenderator.decoding.structs import Shape, can_be_read
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
        self._wide_later: set[str] = set()
        self._typed: set[str] = set()
        self._nested: set[str] = set()
        self._typed_all: set[str] = set()
        # A path that begins with anything but a name needs the whole object, and so does a name that no struct has.
        self.reads_objects = plan.discovery is not Discovery.NONE or any(
            source.rest if source.root is None else not all(map(can_be_read, self._names(source)))
            for source, _ in self._sources()
        )
        self._shape = Shape(())
        self._decode: Callable[[Any], Any] = self._decoder()

    def _decoder(self) -> Callable[[Any], Any]:
        if self.reads_objects:
            return msgspec.json.Decoder(dict[str, Any]).decode
        read = [(source, kind) for source, kind in self._sources() if source.root is not None]
        paths = [self._names(source) for source, _ in read]
        self._shape = Shape(
            (path, self._type_of(source, kind)) for path, (source, kind) in zip(paths, read, strict=True)
        )
        places = {path[0]: self._shape.place(path) for path in paths}
        self._typed = {root for root, (_, _, kind) in places.items() if kind is not Any} - self._wide
        self._nested = {path[0] for path in paths if self._shape.place(path)[1] > 1}
        return msgspec.json.Decoder(self._shape.struct).decode

    def _type_of(self, source: Source, kind: Kind | None) -> Any:
        is_typed = kind is not None and not source.rest and source.root not in self._wide
        return _TYPES.get(kind, Any) if kind is not None and is_typed else Any

    def _names(self, source: Source) -> tuple[str, ...]:
        """The names at the begin of a path, of which structs are made; only the first where it came otherwise."""
        assert source.root is not None
        if source.root in self._wide:
            return (source.root,)
        steps = itertools.takewhile(lambda step: isinstance(step, str), source.rest)
        return (source.root, *cast("Iterable[str]", steps))

    def _sources(self) -> list[tuple[Source, Kind | None]]:
        """What is read from objects: the time, fields that no transform computes, and what transforms read."""
        fields = [(f.source, f.kind) for f in self._plan.fields if f.computed is None]
        read = [(source, None) for transform in self._plan.transforms for _, source in transform.fields]
        return [(self._plan.time, None), *fields, *read]

    def read(self, messages: Sequence[bytes | None]) -> tuple[list[Any], list[int]]:
        """The rows of the accepted messages, in order, and the positions of the others."""
        rows: list[Any] = []
        rejected: list[int] = []
        if self._wide_later:
            # Not before: the rows of one call are of one shape.
            self._wide |= self._wide_later
            self._wide_later = set()
            self._decode = self._decoder()
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
        if self.reads_objects or not (self._typed or self._nested) or message is None:
            return
        try:
            value = msgspec.json.decode(message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if not isinstance(value, dict):
            return
        for root in self._nested:
            if not isinstance(value.get(root), dict | None) and self._missed(root):
                self._wide_later.add(root)
        widened = False
        for root in self._typed:
            if type(value.get(root)) not in self._taken(root) and self._missed(root):
                self._wide.add(root)
                widened = True
        if widened:
            self._decode = self._decoder()
            self._typed_all = self._typed_all & self._typed

    def _missed(self, root: str) -> bool:
        self._misses[root] = self._misses.get(root, 0) + 1
        return self._misses[root] >= _WIDEN_AFTER

    def _taken(self, root: str) -> tuple[type, ...]:
        kind = next(f.kind for f in self._plan.fields if f.source.root == root and f.computed is None)
        if kind is Kind.STRING:
            return (str, type(None))
        if kind in (Kind.LONG, Kind.METRIC_LONG):
            return (int, type(None))
        return (float, int, type(None))

    def arrow(self, rows: list[Any], source: Source) -> None:
        """Rows are never columns here."""

    def column(self, rows: list[Any], source: Source) -> list[Any]:
        """One field's value in every row; None where it is missing."""
        if self.reads_objects:
            return [value_at(source, row) for row in rows]
        if source.root is None:
            return [None] * len(rows)
        # A row read before a field was widened is a struct of an older class, with the same names.
        getter, covered, _ = self._shape.place(self._names(source))
        try:
            values = list(map(getter, rows))
        except AttributeError:
            values = [_within(getter, row) for row in rows]
        rest = source.rest[covered - 1 :]
        return [follow(rest, value) for value in values] if rest else values


def _within(getter: Callable[[Any], Any], row: Any) -> Any:
    """A nested value; None where an object on the way to it is null."""
    try:
        return getter(row)
    except AttributeError:
        return None


def _broken(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return True
    return False
