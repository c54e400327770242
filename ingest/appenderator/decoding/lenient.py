"""Reads what Jackson may be told to take beside JSON: comments, single quotes, bare names and the like (pure)."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from ingest.appenderator.decoding.unreadable import Unreadable

# Python reads no longer ones, and neither does the fast way: their cost grows with the square of their length.
_INTEGER_DIGITS_MAX: Final = 4_300
_NAME: Final = re.compile(r"[^\W\d][\w$]*|[$][\w$]*")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_STRICT_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_NON_NUMERIC: Final = {
    "NaN": math.nan, "Infinity": math.inf, "INF": math.inf, "+Infinity": math.inf, "+INF": math.inf,
    "-Infinity": -math.inf, "-INF": -math.inf,
}  # fmt: skip
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HASH: Final = re.compile(r"#[^\n]*")


def integer_of(digits: str) -> int | float:
    """The number, or an infinity where it has more digits than are read."""
    bare = digits.lstrip("+-")
    return int(digits) if len(bare) <= _INTEGER_DIGITS_MAX else math.inf * (-1 if digits[0] == "-" else 1)


class LenientSyntax:
    """JSON with some of Jackson's features, by their names; both the older and the newer ones."""

    def __init__(self, features: frozenset[str]) -> None:
        def on(*names: str) -> bool:
            return not features.isdisjoint({f"ALLOW_{name}" for name in names})

        self._comments = [
            *([_COMMENT] if on("COMMENTS", "JAVA_COMMENTS") else []),
            *([_HASH] if on("YAML_COMMENTS") else []),
        ]
        self._quotes = "\"'" if on("SINGLE_QUOTES") else '"'
        self._bare_names = on("UNQUOTED_FIELD_NAMES")
        self._controls = on("UNQUOTED_CONTROL_CHARS", "UNESCAPED_CONTROL_CHARS")
        self._any_escape = on("BACKSLASH_ESCAPING_ANY_CHARACTER")
        self._zeros = on("NUMERIC_LEADING_ZEROS", "LEADING_ZEROS_FOR_NUMBERS")
        self._plus = on("LEADING_PLUS_SIGN_FOR_NUMBERS")
        self._leading_point = on("LEADING_DECIMAL_POINT_FOR_NUMBERS")
        self._trailing_point = on("TRAILING_DECIMAL_POINT_FOR_NUMBERS")
        self._non_numeric = on("NON_NUMERIC_NUMBERS")
        self._missing = on("MISSING_VALUES")
        self._trailing_comma = on("TRAILING_COMMA")

    def skip_blanks(self, text: str, position: int) -> int:
        while True:
            match = _BLANKS.match(text, position)
            assert match is not None
            position = match.end()
            comment = next((found for kind in self._comments if (found := kind.match(text, position))), None)
            if comment is None:
                return position
            position = comment.end()

    def read(self, text: str, position: int) -> tuple[Any, int]:
        """The value that begins here, and where it ends.

        Raises:
            Unreadable.
        """
        try:
            return self._value(text, position)
        except RecursionError as error:
            raise Unreadable("nested too deeply") from error

    def _value(self, text: str, at: int) -> tuple[Any, int]:
        first = text[at : at + 1]
        if first == "{":
            return self._object(text, at + 1)
        if first == "[":
            return self._list(text, at + 1)
        if first and first in self._quotes:
            return self._text(text, at)
        number = self._number(text, at)
        if number is not None:
            return number
        name = re.compile(r"[+-]?\w+").match(text, at)
        word = name.group() if name else ""
        if word in _CONSTANTS:
            return _CONSTANTS[word], at + len(word)
        if self._non_numeric and word in _NON_NUMERIC:
            return _NON_NUMERIC[word], at + len(word)
        raise _wrong("a value", at)

    def _number(self, text: str, at: int) -> tuple[Any, int] | None:
        match = _NUMBER.match(text, at)
        if match is None:
            return None
        digits = match.group()
        plain = digits
        if self._plus:
            plain = plain.removeprefix("+")
        sign = "-" if plain.startswith("-") else ""
        rest = plain[len(sign) :]
        if self._leading_point and rest.startswith("."):
            rest = f"0{rest}"
        if self._trailing_point:
            rest = re.sub(r"\.(?=$|[eE])", "", rest)
        if self._zeros:
            rest = re.sub(r"^0+(?=[0-9])", "", rest)
        if not _STRICT_NUMBER.fullmatch(sign + rest):
            raise _wrong("a number", at)
        whole = not any(mark in rest for mark in ".eE")
        return integer_of(sign + rest) if whole else float(sign + rest), match.end()

    def _text(self, text: str, at: int) -> tuple[str, int]:
        quote, pieces, start = text[at], [], at + 1
        position = start
        while True:
            if position >= len(text):
                raise _wrong("the end of a text that begins", at)
            character = text[position]
            if character == quote:
                pieces.append(text[start:position])
                return _paired("".join(pieces)), position + 1
            if character == "\\":
                pieces.append(text[start:position])
                escaped, position = self._escape(text, position)
                pieces.append(escaped)
                start = position
            elif character < " " and not self._controls:
                raise _wrong("no control character", position)
            else:
                position += 1

    def _escape(self, text: str, at: int) -> tuple[str, int]:
        width = 6 if text[at + 1 : at + 2] == "u" else 2
        escape = text[at : at + width]
        try:
            return json.loads(f'"{escape}"'), at + width
        except ValueError as error:
            if width == 2 and len(escape) == 2 and (self._any_escape or (escape[1] == "'" and "'" in self._quotes)):
                return escape[1], at + 2
            raise _wrong("an escape", at) from error

    def _object(self, text: str, at: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        at = self.skip_blanks(text, at)
        while text[at : at + 1] != "}":
            name, at = self._name(text, at)
            at = self.skip_blanks(text, at)
            if text[at : at + 1] != ":":
                raise _wrong("a colon", at)
            found[name], at = self._value(text, self.skip_blanks(text, at + 1))
            at = self.skip_blanks(text, at)
            if text[at : at + 1] == ",":
                at = self.skip_blanks(text, at + 1)
                if text[at : at + 1] == "}" and not self._trailing_comma:
                    raise _wrong("a name", at)
            elif text[at : at + 1] != "}":
                raise _wrong("a comma or the end of an object", at)
        return found, at + 1

    def _name(self, text: str, at: int) -> tuple[str, int]:
        if text[at : at + 1] and text[at] in self._quotes:
            return self._text(text, at)
        match = _NAME.match(text, at) if self._bare_names else None
        if match is None:
            raise _wrong("a name", at)
        return match.group(), match.end()

    def _list(self, text: str, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self.skip_blanks(text, at)
        after_comma = False
        while text[at : at + 1] != "]" or after_comma:
            if self._missing and text[at : at + 1] in (",", "]"):
                if text[at] == "]" and self._trailing_comma:
                    break
                found.append(None)
            elif text[at : at + 1] == "]" and self._trailing_comma:
                break
            else:
                value, at = self._value(text, at)
                found.append(value)
            at = self.skip_blanks(text, at)
            after_comma = text[at : at + 1] == ","
            if after_comma:
                at = self.skip_blanks(text, at + 1)
            elif text[at : at + 1] != "]":
                raise _wrong("a comma or the end of a list", at)
        return found, at + 1


def _paired(text: str) -> str:
    """Halves of surrogate pairs that stood escaped beside each other, as one character."""
    if not re.search("[\ud800-\udfff]", text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _wrong(wanted: str, at: int) -> Unreadable:
    return Unreadable(f"not JSON, not even with the features of the spec: expected {wanted} at character {at}")
