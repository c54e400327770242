"""Reads the text of an expression into its tree, by Druid's grammar and precedence."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from segments.coercion import java_double
from segments.errors import InvalidExpression
from segments.expression.functions import ARITIES, LAMBDA_FIRST, MANY
from segments.expression.tree import ArrayConstant, Binary, Call, Constant, Expression, Identifier, Lambda, Unary
from segments.expression.values import long_of

DEEPEST = 200
"""Brackets, calls and operators inside each other; more is refused before it costs the stack."""

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)"
    r"|(?P<name>[_$a-zA-Z][_$a-zA-Z0-9]*)"
    r"|\"(?P<quoted>(?:[^\"\\]|\\.)*)\""
    r"|'(?P<text>(?:[^'\\]|\\.)*)'"
    r"|(?P<symbol>->|&&|\|\||[<>=!]=|[-+*/%^<>!(),\[\]])"
    r"|(?P<end>$))",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# Weakest first; && and || bind alike, as in Druid's grammar. Unary operators bind stronger than all.
_LEVELS = (("&&", "||"), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*", "/", "%"), ("^",))
_LEVEL_OF = {symbol: level for level, symbols in enumerate(_LEVELS) for symbol in symbols}
_LITERALS = {"null": None, "nan": float("nan"), "infinity": float("inf")}
_ELEMENTS = ("STRING", "LONG", "DOUBLE")


def parse_expression(text: str) -> Expression:
    """The tree of an expression. Pure; the same text always gives an equal tree.

    Raises:
        InvalidExpression: it is not one; the message names the position, counted from 1, and what was met.
    """
    parser = _Parser(text, _tokens(text))
    tree = parser.expression()
    parser.expect_end()
    return tree


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    value: str
    at: int


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise InvalidExpression(f"expression {_shown(text)}: {text[start : start + 1]!r} at {start + 1} is unknown")
        kind = match.lastgroup
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        if kind == "end":
            return tokens
        at = match.end()


def _shown(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:100] + "...")


def _element(value: str | int | float | None, kind: str) -> str | int | float | None:
    """A literal as an array of this kind holds it: numbers are cut to whole ones, and have a text as Java spells it."""
    if value is None or isinstance(value, str):
        return value
    if kind == "STRING":
        return java_double(value) if isinstance(value, float) else str(value)
    return float(value) if kind == "DOUBLE" else long_of(value)


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(one, text)


class _Parser:
    """One walk over the tokens of a text."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def expression(self, weakest: int = 0) -> Expression:
        """One operand and the operators after it that bind at least as strongly as level ``weakest``."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"it is nested deeper than {DEEPEST}")
        left = self._unary()
        steps = 0
        while self._peek().kind == "symbol" and _LEVEL_OF.get(self._peek().value, -1) >= weakest:
            steps += 1
            if steps > DEEPEST:
                raise self._error(f"more than {DEEPEST} operators stand in a row")
            operator = self._next().value
            level = _LEVEL_OF[operator]
            # Only the power leans to the right.
            right = self.expression(level if operator == "^" else level + 1)
            left = Binary(operator, left, right)
        self._depth -= 1
        return left

    def expect_end(self) -> None:
        """Refuses what follows a whole expression."""
        if self._peek().kind != "end":
            raise self._error(f"unexpected {self._peek().value!r}")

    def _unary(self) -> Expression:
        operators = []
        while self._is_symbol("-", "!"):
            operators.append(self._next().value)
            if len(operators) > DEEPEST:
                raise self._error(f"more than {DEEPEST} operators stand in a row")
        operand = self._primary(negative=bool(operators) and operators[-1] == "-")
        number = operand.value if isinstance(operand, Constant) else None
        if operators and operators[-1] == "-" and isinstance(number, int | float):
            operators.pop()
            operand = Constant(-number)
        for operator in reversed(operators):
            operand = Unary(operator, operand)
        return operand

    def _primary(self, negative: bool = False) -> Expression:
        token = self._next()
        if token.kind == "number":
            return Constant(self._number(token, negative))
        if token.kind == "text":
            return Constant(_unescaped(token.value))
        if token.kind == "quoted":
            return Identifier(_unescaped(token.value))
        if token.kind == "name":
            return self._name(token)
        if token.value == "(" and token.kind == "symbol":
            inner = self.expression()
            self._expect(")")
            return inner
        if token.value == "[" and token.kind == "symbol":
            return self._array("")
        if token.value == "<" and token.kind == "symbol":
            # The older spelling of ARRAY<LONG>[...].
            return self._typed_array()
        self._at -= token.kind != "end"
        raise self._error("it ends too early" if token.kind == "end" else f"unexpected {token.value!r}")

    def _number(self, token: _Token, negative: bool = False) -> int | float:
        if not token.value.isdigit():
            return float(token.value)
        value = int(token.value)
        if value > LONG_MAX + negative:
            raise self._error(f"{token.value} is beyond 64 bits")
        return value

    def _name(self, token: _Token) -> Expression:
        if self._is_symbol("("):
            return self._call(token)
        folded = token.value.lower()
        if folded == "array" and self._is_symbol("<"):
            self._next()
            return self._typed_array()
        if folded in _LITERALS and (folded == "null" or token.value in ("NaN", "Infinity")):
            return Constant(_LITERALS[folded])
        return Identifier(token.value)

    def _call(self, token: _Token) -> Expression:
        name = token.value.lower()
        if name not in ARITIES:
            near = difflib.get_close_matches(name, ARITIES, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise self._error(f"function {token.value!r} is unknown{hint}")
        self._expect("(")
        arguments: list[Expression] = []
        while not self._is_symbol(")"):
            if arguments:
                self._expect(",")
            first = not arguments
            arguments.append(self._lambda() if first and name in LAMBDA_FIRST else self.expression())
        self._expect(")")
        least, most = ARITIES[name]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"
            raise self._error(f"{name} takes {wanted} arguments, not {len(arguments)}")
        return Call(name, tuple(arguments))

    def _lambda(self) -> Lambda:
        names: list[str] = []
        if self._is_symbol("("):
            self._next()
            while not self._is_symbol(")"):
                if names:
                    self._expect(",")
                names.append(self._parameter())
            self._next()
        else:
            names.append(self._parameter())
        self._expect("->")
        return Lambda(tuple(names), self.expression())

    def _parameter(self) -> str:
        token = self._next()
        if token.kind not in ("name", "quoted"):
            raise self._error("a lambda such as (x) -> x + 1 is needed")
        return token.value if token.kind == "name" else _unescaped(token.value)

    def _typed_array(self) -> Expression:
        """What stands behind the first < of ARRAY<LONG>[...]."""
        element = self._next().value.upper()
        if element not in _ELEMENTS:
            raise self._error(f"{element!r} is no type of an array's elements, which are {', '.join(_ELEMENTS)}")
        self._expect(">")
        self._expect("[")
        return self._array(element)

    def _array(self, element: str) -> Expression:
        values: list[str | int | float | None] = []
        while not self._is_symbol("]"):
            if values:
                self._expect(",")
            member = self._unary()
            if not isinstance(member, Constant):
                raise self._error("an array in brackets holds constants; use array(...) for anything else")
            values.append(member.value)
        self._next()
        kinds = {type(value) for value in values if value is not None}
        found = "STRING" if not kinds or str in kinds else "DOUBLE" if float in kinds else "LONG"
        if str in kinds and len(kinds) > 1 and element != "STRING":
            raise self._error("an array in brackets holds texts or numbers, not both")
        element = element or found
        if str in kinds and element != "STRING":
            raise self._error(f"an array of {element} holds numbers, no texts")
        return ArrayConstant(tuple(_element(value, element) for value in values), element)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1) if token.kind == "end" else self._at + 1
        return token

    def _is_symbol(self, *symbols: str) -> bool:
        token = self._peek()
        return token.kind == "symbol" and token.value in symbols

    def _expect(self, symbol: str) -> None:
        if not self._is_symbol(symbol):
            met = self._peek()
            raise self._error(f"{symbol!r} is missing before {met.value or 'its end'!r}")
        self._next()

    def _error(self, what: str) -> InvalidExpression:
        return InvalidExpression(f"expression {_shown(self._text)}, at {self._peek().at + 1}: {what}")
