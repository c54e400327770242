"""Reads Druid's filter JSON into ``segments.filter.model``, collecting every problem (pure)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from segments.errors import InvalidExpression, InvalidInterval
from segments.expression.functions import QUERY_ONLY
from segments.expression.parser import parse_expression
from segments.expression.tree import calls_of
from segments.filter.model import (
    And,
    Between,
    Constant,
    ContainsElement,
    Filter,
    Holds,
    InIntervals,
    IsNull,
    IsTrue,
    Matches,
    Not,
    OneOf,
    Or,
    Ordering,
    SameValue,
)
from segments.interval import Interval


class FilterProblem(NamedTuple):
    """One thing wrong in a filter: where, what was found, the rule it breaks, and what to do."""

    path: str
    value: object
    rule: str
    cure: str


class _Wrong(Exception):
    def __init__(self, path: str, value: object, rule: str, cure: str) -> None:
        self.problem = FilterProblem(path, value, rule, cure)


@dataclass(frozen=True, slots=True)
class _Object:
    """One filter object with the path it stands at."""

    path: str
    fields: Mapping[str, Any]

    def text(self, *names: str) -> str:
        for name in names:
            if isinstance(value := self.fields.get(name), str) and value:
                return value
        raise _Wrong(f"{self.path}.{names[0]}", self.fields.get(names[0]), "must name something", f"set {names[0]}")

    def flag(self, name: str) -> bool:
        value = self.fields.get(name, False)
        if value in (True, "true"):
            return True
        if value in (False, "false", None):
            return False
        raise _Wrong(f"{self.path}.{name}", value, "must be true or false", "write true or false")

    def list_of(self, name: str) -> list[Any]:
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise _Wrong(f"{self.path}.{name}", value, "must be a list", f"write {name} as a JSON list")
        return value

    def scalar(self, name: str) -> str | int | float | None:
        value = self.fields.get(name)
        return _scalar(value, f"{self.path}.{name}")

    def column(self) -> str:
        if self.fields.get("extractionFn") is not None:
            raise _Wrong(
                f"{self.path}.extractionFn",
                self.fields["extractionFn"],
                "is not supported",
                "filter on an expression transform instead",
            )
        return self.text("column", "dimension")


def parse_filter(value: Any, path: str) -> tuple[Filter | None, list[FilterProblem]]:
    """The filter at JSON path ``path``, or None with everything that is wrong with it."""
    problems: list[FilterProblem] = []
    return _parse(value, path, problems), problems


def _parse(value: Any, path: str, problems: list[FilterProblem]) -> Filter | None:
    if not isinstance(value, dict):
        problems.append(FilterProblem(path, value, "a filter is a JSON object", "write an object with a type"))
        return None
    item = _Object(path, value)
    kind = value.get("type")
    if kind in ("and", "or"):
        return _parse_many(item, problems)
    if kind == "not":
        part = _parse(value.get("field"), f"{path}.field", problems)
        return None if part is None else Not(part)
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        if isinstance(kind, str) and kind in _REFUSED:
            problems.append(FilterProblem(f"{path}.type", kind, *_REFUSED[kind]))
            return None
        known = ", ".join(sorted((*_READERS, "and", "or", "not")))
        problems.append(FilterProblem(f"{path}.type", kind, "this filter is not supported", f"use one of {known}"))
        return None
    try:
        return reader(item)
    except _Wrong as wrong:
        problems.append(wrong.problem)
        return None


def _parse_many(item: _Object, problems: list[FilterProblem]) -> Filter | None:
    fields = item.fields.get("fields")
    if not isinstance(fields, list) or not fields:
        problems.append(FilterProblem(f"{item.path}.fields", fields, "must be a list of filters", "list the filters"))
        return None
    parsed = [_parse(part, f"{item.path}.fields[{at}]", problems) for at, part in enumerate(fields)]
    parts = tuple(part for part in parsed if part is not None)
    if len(parts) < len(parsed):
        return None
    return And(parts) if item.fields["type"] == "and" else Or(parts)


def _scalar(value: Any, path: str) -> str | int | float | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str | int | float):
        return value
    raise _Wrong(path, value, "must be a text or a number", "compare with single values")


_MATCH_TYPES: Final = {
    "STRING": Ordering.TEXT,
    "LONG": Ordering.LONG,
    "DOUBLE": Ordering.DOUBLE,
    "FLOAT": Ordering.DOUBLE,
}


def _match_type(item: _Object) -> Ordering:
    kind = item.fields.get("matchValueType")
    if not isinstance(kind, str) or kind.upper() not in _MATCH_TYPES:
        raise _Wrong(f"{item.path}.matchValueType", kind, "is not supported", "use STRING, LONG, DOUBLE or FLOAT")
    return _MATCH_TYPES[kind.upper()]


def _typed(item: _Object, name: str, ordering: Ordering) -> str | int | float | None:
    value = item.scalar(name)
    if value is None or ordering is Ordering.TEXT:
        return value if value is None else str(value)
    try:
        return int(value) if ordering is Ordering.LONG and not isinstance(value, float) else float(value)
    except ValueError as error:
        rule = f"is not a {ordering.value}"
        raise _Wrong(f"{item.path}.{name}", value, rule, "correct the value or matchValueType") from error


def _selector(item: _Object) -> Filter:
    return OneOf(item.column(), (item.scalar("value"),))


def _in(item: _Object) -> Filter:
    values = item.list_of("values")
    return OneOf(item.column(), tuple(_scalar(v, f"{item.path}.values[{at}]") for at, v in enumerate(values)))


def _equals(item: _Object) -> Filter:
    ordering = _match_type(item)
    value = _typed(item, "matchValue", ordering)
    if value is None:
        raise _Wrong(f"{item.path}.matchValue", None, "must not be null", 'use {"type": "null"} to find nulls')
    return OneOf(item.column(), (value,), ordering)


def _range(item: _Object) -> Filter:
    ordering = _match_type(item)
    lower, upper = _typed(item, "lower", ordering), _typed(item, "upper", ordering)
    if lower is None and upper is None:
        raise _Wrong(item.path, dict(item.fields), "a range has a bound", "set lower, upper or both")
    return Between(item.column(), lower, upper, item.flag("lowerOpen"), item.flag("upperOpen"), ordering)


_BOUND_ORDERINGS: Final = {"lexicographic": Ordering.TEXT, "numeric": Ordering.DOUBLE}


def _bound(item: _Object) -> Filter:
    stated = item.fields.get("ordering") or "lexicographic"
    name = stated.get("type") if isinstance(stated, dict) else stated
    if not isinstance(name, str) or name not in _BOUND_ORDERINGS:
        cure = "use lexicographic or numeric"
        raise _Wrong(f"{item.path}.ordering", stated, "this ordering is not supported", cure)
    ordering = _BOUND_ORDERINGS[name]
    bounds = [_typed(item, side, ordering) for side in ("lower", "upper")]
    return Between(item.column(), bounds[0], bounds[1], item.flag("lowerStrict"), item.flag("upperStrict"), ordering)


def _null(item: _Object) -> Filter:
    return IsNull(item.column())


def _like(item: _Object) -> Filter:
    escape = item.fields.get("escape")
    if escape is not None and (not isinstance(escape, str) or len(escape) != 1):
        raise _Wrong(f"{item.path}.escape", escape, "must be one character", "use a single character such as \\")
    pattern = item.fields.get("pattern")
    if not isinstance(pattern, str):
        raise _Wrong(f"{item.path}.pattern", pattern, "must be a text", "set pattern")
    return Matches(item.column(), like_to_pattern(pattern, escape))


def like_to_pattern(pattern: str, escape: str | None) -> str:
    """The anchored regular expression of a SQL LIKE pattern (``%`` any run, ``_`` one character)."""
    out: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape is not None and character == escape:
            out.append(_quoted(next(characters, escape)))
        elif character == "%":
            out.append("(?s:.*)")
        elif character == "_":
            out.append("(?s:.)")
        else:
            out.append(_quoted(character))
    return "^" + "".join(out) + r"\z"


def _quoted(character: str) -> str:
    # RE2 knows \z where Python has \Z, and refuses escapes of letters and of non-ASCII characters.
    return "\\" + character if character in r"\.+*?()|[]{}^$" else character


def _regex(item: _Object) -> Filter:
    return _matching(item.column(), item)


def _matching(column: str, item: _Object) -> Filter:
    pattern = item.text("pattern")
    try:
        re.compile(pattern)
    except re.error as error:
        raise _Wrong(f"{item.path}.pattern", pattern, f"is no regular expression: {error}", "correct it") from error
    if re.search(r"\(\?(?:[=!]|<[=!])|\\[1-9]", pattern):
        raise _Wrong(
            f"{item.path}.pattern", pattern, "look-around and back references are not supported", "do without them"
        )
    return Matches(column, pattern)


def _interval(item: _Object) -> Filter:
    found: list[tuple[int, int]] = []
    stated = item.fields.get("intervals")
    for at, text in enumerate([stated] if isinstance(stated, str) else item.list_of("intervals")):
        try:
            interval = Interval.parse(str(text))
        except InvalidInterval as error:
            path = f"{item.path}.intervals[{at}]"
            raise _Wrong(path, text, str(error), "write start/end in ISO 8601") from error
        found.append((interval.start_ms, interval.end_ms))
    return InIntervals(item.column(), tuple(found))


def _column_comparison(item: _Object) -> Filter:
    names = item.list_of("dimensions")
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise _Wrong(f"{item.path}.dimensions", names, "must name two or more columns", "list column names")
    return SameValue(tuple(names))


def _expression(item: _Object) -> Filter:
    text = item.text("expression")
    path = f"{item.path}.expression"
    try:
        tree = parse_expression(text)
    except InvalidExpression as error:
        raise _Wrong(path, text[:200], str(error), "correct the expression") from error
    refused = [call.name for call in calls_of(tree) if call.name in QUERY_ONLY]
    if refused:
        raise _Wrong(path, text[:200], f"the function {refused[0]} works in queries only", "do without it")
    return Holds(tree)


def _contains_element(item: _Object) -> Filter:
    kind = item.fields.get("elementMatchValueType", "STRING")
    if not isinstance(kind, str) or kind.upper() not in _MATCH_TYPES:
        where, cure = f"{item.path}.elementMatchValueType", "use STRING, LONG, DOUBLE or FLOAT"
        raise _Wrong(where, kind, "is not supported", cure)
    return ContainsElement(item.column(), _typed(item, "elementMatchValue", _MATCH_TYPES[kind.upper()]))


def _search(item: _Object) -> Filter:
    query = item.fields.get("query")
    fields = query if isinstance(query, dict) else {}
    kind, where = fields.get("type"), f"{item.path}.query"
    inner = _Object(where, fields)
    if kind == "regex":
        return _matching(item.column(), inner)
    if kind == "fragment":
        exact = inner.flag("caseSensitive")
        values = [str(_scalar(v, f"{where}.values")) for v in inner.list_of("values")]
        parts: list[Filter] = [_containing(item.column(), value, exact) for value in values]
        return And(tuple(parts)) if parts else Constant(True)
    if kind not in ("contains", "insensitive_contains"):
        raise _Wrong(f"{where}.type", kind, "is not known", "use contains, insensitive_contains, fragment or regex")
    exact = kind == "contains" and inner.flag("caseSensitive")
    return _containing(item.column(), str(inner.scalar("value") or ""), exact)


def _containing(column: str, value: str, exact: bool) -> Filter:
    quoted = "".join(map(_quoted, value))
    return Matches(column, quoted if exact else f"(?i){quoted}")


def _known(item: _Object) -> Filter:
    problems: list[FilterProblem] = []
    part = _parse(item.fields.get("field"), f"{item.path}.field", problems)
    if part is None:
        first = problems[0]
        raise _Wrong(first.path, first.value, first.rule, first.cure)
    return IsTrue(part, item.fields["type"] == "istrue")


def _constant(item: _Object) -> Filter:
    return Constant(item.fields["type"] == "true")


_REFUSED: Final = {
    "javascript": ("is not supported: no JavaScript is run", "use an expression filter"),
    "spatial": ("is not supported: there are no spatial columns", "compare coordinates by range filters"),
    "extraction": ("is not supported: it needs an extraction function", "use an expression filter"),
}
_READERS: Final[dict[str, Callable[[_Object], Filter]]] = {
    "selector": _selector,
    "in": _in,
    "equals": _equals,
    "range": _range,
    "bound": _bound,
    "null": _null,
    "like": _like,
    "regex": _regex,
    "interval": _interval,
    "columnComparison": _column_comparison,
    "expression": _expression,
    "arrayContainsElement": _contains_element,
    "search": _search,
    "istrue": _known,
    "isfalse": _known,
    "true": _constant,
    "false": _constant,
}
