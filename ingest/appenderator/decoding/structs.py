"""Makes the msgspec struct that reads exactly the fields of a plan, nested ones as structs inside structs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import msgspec


def can_be_read(name: str) -> bool:
    """Whether a struct can have a field of this name: msgspec
    takes none that JSON would spell with an escape."""
    return not any(character < " " or character in '"\\' for character in name)


@dataclass(slots=True)
class _Node:
    """A name: what it is read as where it is a value of its own, or the names below it."""

    kind: Any = None
    is_leaf: bool = False
    below: dict[str, _Node] = field(default_factory=dict)
    attribute: str = ""


class Shape:
    """Which names are read, as which types. A name that is read in two ways is read as whatever it is, and so is
    everything below a name that is a value itself."""

    def __init__(self, paths: Iterable[tuple[tuple[str, ...], Any]]) -> None:
        self._root = _Node()
        for path, kind in paths:
            self._add(path, kind)
        self._name(self._root)
        self.struct: Any = _struct(self._root)

    def _add(self, path: tuple[str, ...], kind: Any) -> None:
        node = self._root
        for name in path:
            if node.is_leaf:
                # Something above is read as a whole.
                node.kind = Any
                return
            node = node.below.setdefault(name, _Node())
        if node.below:
            node.below, node.kind, node.is_leaf = {}, Any, True
        elif node.is_leaf and node.kind != kind:
            node.kind = Any
        else:
            node.kind, node.is_leaf = kind, True

    def _name(self, node: _Node) -> None:
        for at, below in enumerate(node.below.values()):
            below.attribute = f"f{at}"
            self._name(below)

    def place(self, path: tuple[str, ...]) -> tuple[attrgetter[Any], int, Any]:
        """How a row's struct gives the path's value: a getter, how many names of the path it covers, and the type."""
        node = self._root
        attributes: list[str] = []
        for covered, name in enumerate(path):
            if node.is_leaf:
                return attrgetter(".".join(attributes)), covered, node.kind
            node = node.below[name]
            attributes.append(node.attribute)
        return attrgetter(".".join(attributes)), len(path), node.kind


def _struct(node: _Node) -> Any:
    fields: list[tuple[str, Any, Any]] = []
    for below in node.below.values():
        if below.is_leaf:
            fields.append((below.attribute, below.kind, None))
        else:
            inner = _struct(below)
            # An object that is missing is one whose fields are; a null is left to the reader of single values.
            fields.append((below.attribute, inner | None, inner()))
    names = {below.attribute: name for name, below in node.below.items()}
    return msgspec.defstruct("Row", fields, rename=names, gc=False, frozen=True)
