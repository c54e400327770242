"""Prepares an Avro schema for reading rows: what it would do to this process, and Druid's view of unions (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


class UnusableSchema(ValueError):
    """No row can be read by this schema; the text says why."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schema to read with. ``recursive``: a value may be nested as deeply as its bytes reach.

    ``converted``: values may hold bytes, or nulls in lists, which columns do not take as they are.
    """

    schema: Any
    recursive: bool
    converted: bool


def prepare(text: str, unions_by_type: bool, known: dict[str, Any]) -> Prepared:
    """Reads a schema; ``known`` holds the named types of those it refers to, and gets its own.

    Logical types are taken away: as in Druid a field is what its underlying type is.

    Raises:
        UnusableSchema.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnusableSchema(f"the schema is no JSON: {error}") from error
    walk = _Walk(known)
    try:
        walk.visit(schema, "", ())
        if walk.named.get(_full_name(schema, "")) is None or schema.get("type") not in ("record", "error"):
            raise UnusableSchema("the schema is no record")
        prepared = _Rewriter(unions_by_type).of(schema)
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise UnusableSchema(f"the schema is malformed: {type(error).__name__} {error}") from error
    return Prepared(prepared, walk.recursive, walk.converted)


def _full_name(schema: Any, space: str) -> str:
    name: str = schema["name"] if isinstance(schema, dict) and "name" in schema else ""
    if "." in name:
        return name
    space = schema.get("namespace", space) if isinstance(schema, dict) else space
    return f"{space}.{name}" if space else name


class _Walk:
    """Looks at every type once: ``named`` types found so far, and what values of them may hold."""

    def __init__(self, named: dict[str, Any]) -> None:
        self.named = named
        self.recursive = False
        self.converted = False

    def visit(self, schema: Any, space: str, above: tuple[str, ...]) -> bool:
        """Whether a value of this type may take no byte at all."""
        if isinstance(schema, list):
            for branch in schema:
                self.visit(branch, space, above)
            return False
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, dict | list):
            return self.visit(kind, space, above)
        if kind in _PRIMITIVES:
            self.converted = self.converted or kind == "bytes"
            return bool(kind == "null")
        if kind in _NAMED:
            return self._define(schema, kind, space, above)
        if kind == "array":
            if self.visit(schema["items"], space, above):
                raise UnusableSchema("it has lists whose items take no bytes: one message could fill the memory")
            self.converted = self.converted or isinstance(schema["items"], list)
            return False
        if kind == "map":
            self.visit(schema["values"], space, above)
            return False
        return self._refer(kind, space, above)

    def _define(self, schema: dict[str, Any], kind: str, space: str, above: tuple[str, ...]) -> bool:
        name = _full_name(schema, space)
        inner = name.rpartition(".")[0]
        self.named[name] = False
        if kind in ("record", "error"):
            sizes = [self.visit(field["type"], inner, (*above, name)) for field in schema["fields"]]
            self.named[name] = all(sizes)
        else:
            self.converted = self.converted or kind == "fixed"
            self.named[name] = kind == "fixed" and not schema["size"]
        return bool(self.named[name])

    def _refer(self, kind: str, space: str, above: tuple[str, ...]) -> bool:
        name = kind if "." in kind or not space else f"{space}.{kind}"
        name = name if name in self.named else kind
        if name not in self.named:
            raise UnusableSchema(f"it refers to {kind!r}, which is not defined")
        self.recursive = self.recursive or name in above
        return bool(self.named[name])


class _Rewriter:
    """Copies a schema without logical types; with every union of several types as Druid expands it where asked.

    A union's branch T and a record whose only field is a T have the same bytes, so that a branch that is
    replaced by a record whose field is named after T reads as an object keyed by the type.
    """

    def __init__(self, unions_by_type: bool) -> None:
        self._expand = unions_by_type
        self._made = 0

    def of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self._union(schema)
        if not isinstance(schema, dict):
            return schema
        plain = {key: value for key, value in schema.items() if key not in ("logicalType", "default", "aliases")}
        for key in ("type", "items", "values"):
            if isinstance(plain.get(key), dict | list):
                plain[key] = self.of(plain[key])
        if isinstance(plain.get("fields"), list):
            plain["fields"] = [self.of(field) for field in plain["fields"]]
        return plain

    def _union(self, branches: list[Any]) -> list[Any]:
        several = sum(branch != "null" for branch in branches) > 1
        if not self._expand or not several:
            return [self.of(branch) for branch in branches]
        return list(self._by_type(branches))

    def _by_type(self, branches: list[Any]) -> Iterator[Any]:
        for branch in branches:
            if branch == "null":
                yield branch
                continue
            self._made += 1
            kind = branch if isinstance(branch, str) else branch["type"]
            key = branch.get("name", kind) if isinstance(branch, dict) and kind in _NAMED else kind
            field = {"name": str(key).rpartition(".")[2], "type": self.of(branch)}
            yield {"type": "record", "name": f"siltstone_branch_{self._made}", "fields": [field]}
