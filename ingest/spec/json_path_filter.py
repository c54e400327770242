"""Reads and judges the conditions of ``[?(...)]`` in a JSON path (pure).

Paths from ``@`` (the member) or ``$`` (the whole), literals, ``== != < <= > >= =~ in nin contains size empty
anyof noneof subsetof``, ``! && ||`` and brackets. A path alone asks whether it is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ingest.spec.json_path_tokens import UnsupportedPath, closing

Steps = tuple[Any, ...]
Follow = Callable[[Steps, Any], Any]
_DEEPEST: Final = 50


@dataclass(frozen=True, slots=True)
class Lookup:
    """A path from the member, or from the root."""

    steps: Steps
    from_root: bool


@dataclass(frozen=True, slots=True)
class Literal:
    """A JSON value; a list as a tuple, a regular expression by its text and ``ignore_case``."""

    value: Any
    is_pattern: bool = False
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """An operator between two operands; ``there``: the left exists, without a right."""

    operator: str
    left: Lookup | Literal
    right: Lookup | Literal | None = None


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    part: Condition


Condition = Compare | Every | Either | Negation

_OPERATOR: Final = re.compile(
    r"\s*(==|!=|<=|>=|=~|<|>|(?:in|nin|contains|size|empty|anyof|noneof|subsetof)(?=[\s\[('\"@$\d]))\s*", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD: Final = re.compile(r"(true|false|null)\b", re.IGNORECASE)
_TEXT: Final = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_PATTERN: Final = re.compile(r"/((?:[^/\\]|\\.)*)/(i?)")
_PATH_PART: Final = re.compile(r"\.?\.?(?:[\w\-]+|\*)")


def parse_condition(text: str, parse_path: Callable[[str], Steps]) -> Condition:
    """The condition of a filter's text; ``parse_path`` reads the paths in it.

    Raises:
        UnsupportedPath: with the part that could not be read.
    """
    parser = _Parser(text, parse_path)
    condition = parser.either(0)
    if text[parser.at :].strip():
        raise UnsupportedPath(f"cannot read {text[parser.at :].strip()!r} in a filter")
    return condition


class _Parser:
    def __init__(self, text: str, parse_path: Callable[[str], Steps]) -> None:
        self._text = text
        self._parse_path = parse_path
        self.at = 0

    def either(self, depth: int) -> Condition:
        parts = [self._every(depth)]
        while self._take("||"):
            parts.append(self._every(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _every(self, depth: int) -> Condition:
        parts = [self._single(depth)]
        while self._take("&&"):
            parts.append(self._single(depth))
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _single(self, depth: int) -> Condition:
        if depth > _DEEPEST:
            raise UnsupportedPath("a filter is nested too deeply")
        if self._take("!"):
            return Negation(self._single(depth + 1))
        if self._take("("):
            inner = self.either(depth + 1)
            if not self._take(")"):
                raise UnsupportedPath("a bracket of a filter is not closed")
            return inner
        left = self._operand()
        match = _OPERATOR.match(self._text, self.at)
        if match is None:
            return Compare("there", left)
        self.at = match.end()
        return Compare(match[1].lower(), left, self._operand())

    def _take(self, symbol: str) -> bool:
        rest = self._text[self.at :].lstrip()
        # != is an operator, ! before anything else a negation.
        if not rest.startswith(symbol) or (symbol == "!" and rest.startswith("!=")):
            return False
        self.at = len(self._text) - len(rest) + len(symbol)
        return True

    def _operand(self) -> Lookup | Literal:
        rest = self._text[self.at :].lstrip()
        self.at = len(self._text) - len(rest)
        if rest[:1] in ("@", "$"):
            return self._path()
        if rest.startswith("["):
            return self._list()
        for pattern, value_of in (
            (_WORD, lambda match: json.loads(match.group().lower())),
            (_NUMBER, lambda match: json.loads(match.group())),
            (_TEXT, lambda match: re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2])),
        ):
            match = pattern.match(rest)
            if match is not None:
                self.at += match.end()
                return Literal(value_of(match))
        match = _PATTERN.match(rest)
        if match is None:
            raise UnsupportedPath(f"cannot read {rest!r} in a filter")
        try:
            re.compile(match[1])
        except re.error as error:
            raise UnsupportedPath(f"{match[1]!r} is no regular expression: {error}") from error
        self.at += match.end()
        return Literal(match[1], is_pattern=True, ignore_case=bool(match[2]))

    def _path(self) -> Lookup:
        start, end = self.at, self.at + 1
        while end < len(self._text):
            if self._text[end] == "[":
                end = closing(self._text, end) + 1
                continue
            match = _PATH_PART.match(self._text, end)
            if match is None or not match.group().startswith("."):
                break
            end = match.end()
            if self._text.startswith("(", end):
                end = closing(self._text, end) + 1
        self.at = end
        return Lookup(self._parse_path("$" + self._text[start + 1 : end]), self._text[start] == "$")

    def _list(self) -> Literal:
        end = closing(self._text, self.at)
        inner = _Parser(self._text[self.at + 1 : end], self._parse_path)
        values: list[Any] = []
        while self._text[self.at + 1 : end].strip() and not (values and not inner._take(",")):
            item = inner._operand()
            if isinstance(item, Lookup):
                raise UnsupportedPath("a list in a filter holds literals only")
            values.append(item.value)
        self.at = end + 1
        return Literal(tuple(values))


def holds(condition: Condition, item: Any, root: Any, follow: Follow) -> bool:
    """Whether the condition is true of a member."""
    if isinstance(condition, Every):
        return all(holds(part, item, root, follow) for part in condition.parts)
    if isinstance(condition, Either):
        return any(holds(part, item, root, follow) for part in condition.parts)
    if isinstance(condition, Negation):
        return not holds(condition.part, item, root, follow)
    left = _value(condition.left, item, root, follow)
    if condition.right is None:
        return left is not None and left != []
    right = _value(condition.right, item, root, follow)
    if isinstance(condition.right, Literal) and condition.right.is_pattern:
        flags = re.IGNORECASE if condition.right.ignore_case else 0
        return isinstance(left, str) and re.fullmatch(right, left, flags) is not None
    return _TESTS[condition.operator](left, right)


def _value(operand: Lookup | Literal, item: Any, root: Any, follow: Follow) -> Any:
    if isinstance(operand, Literal):
        return list(operand.value) if isinstance(operand.value, tuple) else operand.value
    return follow(operand.steps, root if operand.from_root else item)


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def apply(left: Any, right: Any) -> bool:
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (left, right))
        return (numbers or (isinstance(left, str) and isinstance(right, str))) and test(left, right)

    return apply


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _listed(left: Any, right: Any) -> bool:
    return isinstance(right, list) and any(_equal(left, value) for value in right)


def _members(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _contains(left: Any, right: Any) -> bool:
    return (right in left) if isinstance(left, str) and isinstance(right, str) else _listed(right, left)


_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "=~": lambda left, right: False,
    "in": _listed,
    "nin": lambda left, right: not _listed(left, right),
    "contains": _contains,
    "size": lambda left, right: isinstance(left, str | list) and len(left) == right,
    "empty": lambda left, right: isinstance(left, str | list) and (not left) is bool(right),
    "anyof": lambda left, right: any(_listed(value, right) for value in _members(left)),
    "noneof": lambda left, right: not any(_listed(value, right) for value in _members(left)),
    "subsetof": lambda left, right: all(_listed(value, right) for value in _members(left)),
}
