"""Tells what is wrong with a text that is no statement: the place, the word, and what was probably meant.

``check`` finds mistakes that the parser reads as something else, in one walk over the tokens; ``explained`` and
``unclosed`` say in our words what the parser stumbled over. Pure.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Protocol

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import TokenType as T

from query.errors import SqlParseError

PAIRS = 2


class Token(Protocol):
    """A word or sign of a statement; ``start`` and ``end`` are the positions of its first and last character, ``line``
    and ``col`` the place of its last one, from 1."""

    token_type: T
    text: str
    start: int
    end: int
    line: int
    col: int


_OPERATORS = {T.AND, T.OR, T.EQ, T.NEQ, T.LT, T.LTE, T.GT, T.GTE, T.PLUS, T.DASH, T.SLASH, T.MOD, T.DPIPE, T.LIKE}
_CLAUSES = {T.FROM, T.WHERE, T.GROUP_BY, T.ORDER_BY, T.HAVING, T.UNION, T.SEMICOLON}
_ENDS = {*_CLAUSES, T.R_PAREN, T.COMMA}
# What needs something after it, and what cannot be that.
_INCOMPLETE = {
    **dict.fromkeys([T.WHERE, T.HAVING, T.ON, T.WHEN, T.THEN, *_OPERATORS], {*_ENDS, T.AND, T.OR}),
    **dict.fromkeys([T.BETWEEN, T.NOT, T.ALIAS, T.LIMIT, T.OFFSET, T.IS, T.ELSE], _CLAUSES),
    **dict.fromkeys([T.SELECT, T.COMMA, T.GROUP_BY, T.ORDER_BY, T.PARTITION_BY, T.FROM, T.JOIN], _ENDS),
    **dict.fromkeys([T.UNION, T.IN, T.DISTINCT], _ENDS),
}
_NEEDED = {
    **dict.fromkeys([T.FROM, T.JOIN], "a table, or a query in brackets"),
    **dict.fromkeys([T.WHERE, T.HAVING, T.ON, T.WHEN, T.AND, T.OR], "a condition"),
    **dict.fromkeys([T.LIMIT, T.OFFSET], "a whole number, or ? for a parameter"),
    T.ALIAS: "a name",
    T.UNION: "ALL and a query",
}
_NAMES = {T.SELECT, T.COMMA, T.DOT, T.ALIAS}
"""After these a word is a name, whatever it means elsewhere."""
_WITHOUT_BY = {"GROUP", "ORDER", "PARTITION"}
_SIGNS = {
    T.DAMP: "conditions are joined by AND",
    T.HASH: "a comment begins with --",
    T.UNKNOWN: "names are quoted with double quotes, texts with single ones",
    T.PARAMETER: "there is no such sign in SQL",
    T.ILIKE: "there is no such operator: LOWER(a) LIKE 'b%', or ICONTAINS_STRING(a, 'b')",
    T.RLIKE: "there is no such operator: REGEXP_LIKE(a, 'b')",
}
_CURLY = "‘’“”„‚´"
_STARTERS = ("SELECT", "WITH", "VALUES", "EXPLAIN PLAN FOR", "SET")
_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "JOIN", "INNER", "LEFT", "UNION", "AND",
    "OR", "BETWEEN", "LIKE", "DESC", "ASC", "THEN", "WHEN", "ELSE", "END", "OVER", "FILTER",
)  # fmt: skip
_AFTER_TABLE = "JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, UNION ALL or the end"
_EXPECTED = {
    T.SELECT: "an operator, a comma, AS or FROM",
    T.FROM: f"a comma, AS, {_AFTER_TABLE}",
    T.ON: f"AND, OR, {_AFTER_TABLE}",
    T.WHERE: "an operator, AND, OR, GROUP BY, HAVING, ORDER BY, LIMIT, UNION ALL or the end",
    T.GROUP_BY: "a comma, HAVING, ORDER BY, LIMIT, UNION ALL or the end",
    T.HAVING: "an operator, AND, OR, ORDER BY, LIMIT, UNION ALL or the end",
    T.ORDER_BY: "a comma, ASC, DESC, NULLS FIRST, NULLS LAST, LIMIT, OFFSET or the end",
    T.LIMIT: "OFFSET or the end",
    T.OFFSET: "the end",
    T.WITH: "a name, AS and a query in brackets",
    T.CASE: "WHEN, THEN, ELSE or END",
}
_OPEN_TEXT = re.compile(
    r"'(?:[^']|'')*+(?P<text>'?)|\"(?:[^\"]|\"\")*+(?P<name>\"?)|/\*.*?(?P<comment>\*/|\Z)|--[^\n]*", re.DOTALL
)
# What the parser says, what is wrong then, and what could stand there.
_SAID = (
    ("Expected table name", "the name of a table is missing", "a table, or a query in brackets"),
    ("Between", "BETWEEN has no upper bound", "AND and another value"),
    ("Expected CTE", "WITH lists names with queries", _EXPECTED[T.WITH]),
    ("Required keyword", "something is missing before it", "an expression"),
)
_UNCLOSED = {"'": "the text that begins here", '"': "the name that begins here", "/": "the comment that begins here"}


def check(text: str, tokens: Sequence[Token]) -> None:
    """Looks for what is read as something else than was meant.

    Raises:
        SqlParseError: with the place and the cure.
    """
    if not tokens:
        return
    _check_first(text, tokens[0])
    before: Token | None = None
    for at, token in enumerate(tokens):
        previous, before = before, token
        if previous is not None:
            closed = _INCOMPLETE.get(previous.token_type)
            if closed is not None and token.token_type in closed:
                _check_missing(text, tokens, at)
        rule = _RULES.get(token.token_type)
        if rule is not None:
            rule(text, tokens, at)
    last = tokens[-1]
    if last.token_type in _INCOMPLETE and (len(tokens) == 1 or tokens[-2].token_type not in _NAMES):
        raise _wrong(
            text, last, f"the statement ends after {last.text!r}", _NEEDED.get(last.token_type, "an expression")
        )


def _check_first(text: str, first: Token) -> None:
    if first.token_type is T.FROM:
        raise _wrong(text, first, "a query begins with SELECT", "SELECT")
    if first.token_type in (T.VAR, T.STRING, T.NUMBER, T.IDENTIFIER):
        near = difflib.get_close_matches(first.text.upper(), ("SELECT", "WITH", "VALUES", "EXPLAIN"), n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise _wrong(text, first, f"no query begins with {first.text!r}{meant}", " or ".join(_STARTERS))


def _check_missing(text: str, tokens: Sequence[Token], at: int) -> None:
    previous, token = tokens[at - 1], tokens[at]
    before = tokens[at - PAIRS].token_type if at > 1 else None
    if before in (T.DOT, T.ALIAS, T.IS) or (before in _NAMES and previous.token_type in (T.LIMIT, T.OFFSET)):
        return
    needed = _NEEDED.get(previous.token_type, "an expression")
    if token.token_type is T.SEMICOLON:
        raise _wrong(text, previous, f"the statement ends after {previous.text!r}", needed)
    if previous.token_type is T.DISTINCT and before is T.NOT:
        return
    raise _wrong(text, previous, f"nothing stands between {previous.text!r} and {token.text!r}", needed)


def _equals(text: str, tokens: Sequence[Token], at: int) -> None:
    if tokens[at].text == "==":
        raise _wrong(text, tokens[at], "values are compared with a single =", "=")


def _not(text: str, tokens: Sequence[Token], at: int) -> None:
    if tokens[at].text == "!":
        raise _wrong(text, tokens[at], "a condition is turned round with NOT", "NOT")


def _sign(text: str, tokens: Sequence[Token], at: int) -> None:
    raise _wrong(text, tokens[at], _SIGNS[tokens[at].token_type])


def _bracket(text: str, tokens: Sequence[Token], at: int) -> None:
    if at and tokens[at - 1].token_type in (T.SELECT, T.COMMA, T.FROM, T.WHERE, T.AND, T.DOT, T.GROUP_BY, T.ORDER_BY):
        raise _wrong(text, tokens[at], _SIGNS[T.UNKNOWN], "a name")


def _two_texts(text: str, tokens: Sequence[Token], at: int) -> None:
    if at and tokens[at - 1].token_type is T.STRING:
        raise _wrong(text, tokens[at], "two texts stand side by side", "a comma, or || to join them")


def _one_number(text: str, tokens: Sequence[Token], at: int) -> None:
    following = tokens[at + 1 : at + 2]
    if following and following[0].token_type is T.DOT and following[0].start == tokens[at].end + 1:
        raise _wrong(text, tokens[at], "it is followed by a second point", "a number such as 1.25")


def _limit(text: str, tokens: Sequence[Token], at: int) -> None:
    word, following = tokens[at], tokens[at + 1 : at + 3]
    if not at or tokens[at - 1].token_type in _NAMES or not following:
        return
    if following[0].token_type in (T.VAR, T.IDENTIFIER, T.STRING):
        raise _wrong(text, following[0], f"{word.text} takes a whole number", _NEEDED[T.LIMIT])
    if word.token_type is T.LIMIT and len(following) == PAIRS and following[1].token_type is T.COMMA:
        skipped = following[0].text
        raise _wrong(text, following[1], f"rows are skipped by OFFSET: LIMIT … OFFSET {skipped}", "OFFSET or the end")


def _fetch(text: str, tokens: Sequence[Token], at: int) -> None:
    if tokens[at + 1 : at + 2] and tokens[at + 1].token_type is T.NUMBER:
        raise _wrong(text, tokens[at + 1], "FETCH NEXT 5 ROWS ONLY, or LIMIT 5", "FIRST or NEXT")


def _in(text: str, tokens: Sequence[Token], at: int) -> None:
    following = tokens[at + 1 : at + 2]
    if following and following[0].token_type in (T.STRING, T.NUMBER) and not _is_position(tokens, at):
        raise _wrong(text, tokens[at + 1], "IN takes a list in brackets", "(")
    _exists(text, tokens, at)


def _is_position(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word stands in the brackets of POSITION, which says IN as well."""
    depth = 0
    for place in range(at - 1, 0, -1):
        kind = tokens[place].token_type
        depth += (kind is T.R_PAREN) - (kind is T.L_PAREN)
        if depth < 0:
            return tokens[place - 1].text.upper() == "POSITION"
    return False


def _exists(text: str, tokens: Sequence[Token], at: int) -> None:
    if tokens[at + 1 : at + 2] and tokens[at + 1].token_type is T.SELECT:
        raise _wrong(text, tokens[at + 1], f"the query after {tokens[at].text} stands in brackets", "(")


def _from(text: str, tokens: Sequence[Token], at: int) -> None:
    if at > 1 and tokens[at - 1].token_type is T.L_PAREN and tokens[at - 2].text.upper() != "TRIM":
        raise _wrong(text, tokens[at], "a query begins with SELECT", "SELECT")


def _with(text: str, tokens: Sequence[Token], at: int) -> None:
    kinds = [token.token_type for token in tokens[at + 2 : at + 4]]
    if kinds == [T.L_PAREN, T.SELECT]:
        raise _wrong(text, tokens[at + 2], f"AS is missing after {tokens[at + 1].text!r}", "AS")


def _semicolon(text: str, tokens: Sequence[Token], at: int) -> None:
    following = next((token for token in tokens[at + 1 :] if token.token_type is not T.SEMICOLON), None)
    if following is not None:
        raise _wrong(text, following, "only one statement may be sent at a time", "the end")


def _word(text: str, tokens: Sequence[Token], at: int) -> None:
    word = tokens[at]
    if word.text[0] in _CURLY:
        raise _wrong(text, word, "a text stands in straight quotes, a name in straight double ones", "' or \"")
    if at + 1 >= len(tokens):
        return
    following, name = tokens[at + 1], word.text.upper()
    if name in _WITHOUT_BY and following.token_type in (T.VAR, T.IDENTIFIER, T.NUMBER):
        if at and tokens[at - 1].token_type not in _NAMES:
            raise _wrong(text, following, f"BY is missing after {word.text}", "BY")
    elif name == "TOP" and following.token_type is T.NUMBER and at and tokens[at - 1].token_type is T.SELECT:
        raise _wrong(text, word, f"the number of rows stands at the end: LIMIT {following.text}", "an expression")


_RULES = {
    T.EQ: _equals,
    T.NOT: _not,
    **dict.fromkeys(_SIGNS, _sign),
    T.L_BRACKET: _bracket,
    T.STRING: _two_texts,
    T.NUMBER: _one_number,
    T.LIMIT: _limit,
    T.OFFSET: _limit,
    T.FETCH: _fetch,
    T.IN: _in,
    T.EXISTS: _exists,
    T.FROM: _from,
    T.WITH: _with,
    T.SEMICOLON: _semicolon,
    T.VAR: _word,
}


def explained(text: str, tokens: Sequence[Token], error: ParseError) -> SqlParseError:
    """What the parser could not read, with what could stand there."""
    first = error.errors[0] if error.errors else {}
    said = re.sub(r"\x1b\[[0-9;]*m", "", str(first.get("description") or error))
    place = (first.get("line"), first.get("col"))
    at = next((at for at, token in enumerate(tokens) if (token.line, token.col) == place), len(tokens) - 1)
    if said.startswith("Expected END"):
        at = min(at + 1, len(tokens) - 1)
    if tokens[at].token_type is T.COLON:
        return _wrong(text, tokens[at], "parameters have no names", "?")
    for words, why, expected in _SAID:
        if words in said:
            return _wrong(text, tokens[at], why, expected)
    for near in (at, at - 1):
        keyword = _meant(tokens, near)
        if keyword:
            return _wrong(text, tokens[near], f"did you mean {keyword}?", keyword)
    return _unexpected(text, tokens, at, said)


def _unexpected(text: str, tokens: Sequence[Token], at: int, said: str) -> SqlParseError:
    """A word where another is expected: by the bracket or the clause that it stands in."""
    clause, opened = _around(tokens, at)
    if opened is not None and (said.startswith("Expecting )") or "nexpected" in said):
        line, column = _place(text, opened)
        why = f"the bracket of line {line}, column {column} is still open"
        return _wrong(text, tokens[at], why, "an operator, a comma or )")
    if tokens[at].token_type is T.R_PAREN and opened is None:
        return _wrong(text, tokens[at], "it closes a bracket that nothing opened", _EXPECTED.get(clause, "the end"))
    if "nexpected" in said:
        return _wrong(text, tokens[at], "it cannot stand here", _EXPECTED.get(clause, "an expression"))
    wanted = re.fullmatch(r"Expect(?:ed|ing) (.+)", said)
    return _wrong(text, tokens[at], "it cannot stand here" if wanted else said, wanted[1] if wanted else "")


def unclosed(text: str) -> SqlParseError:
    """Which text, name or comment has no end."""
    for found in _OPEN_TEXT.finditer(text):
        end = found["text"] if found["text"] is not None else found["name"]
        end = found["comment"] if end is None else end
        if end == "":
            sign = found[0][0]
            closing = {"/": "*/"}.get(sign, sign)
            line, column = _line_column(text, found.start())
            what = f"{_UNCLOSED[sign]} has no end: {closing} is missing"
            return SqlParseError(f"Incorrect syntax near {found[0][:20]!r}: {what}", line, column, sign)
    return SqlParseError("Incorrect syntax: the statement cannot be read")


def _meant(tokens: Sequence[Token], at: int) -> str:
    """The keyword that a word is nearly one of, where it is none."""
    if at < 0 or tokens[at].token_type is not T.VAR or (at and tokens[at - 1].token_type in _NAMES):
        return ""
    word = tokens[at].text.upper()
    if word in _KEYWORDS or len(word) <= PAIRS:
        return ""
    near = [keyword for keyword in _KEYWORDS if sorted(keyword) == sorted(word)]
    near += difflib.get_close_matches(word, _KEYWORDS, n=1, cutoff=0.7)
    return near[0] if near else ""


def _around(tokens: Sequence[Token], at: int) -> tuple[T, Token | None]:
    """The clause that a token stands in, and the bracket around it that is open there."""
    opened: list[tuple[Token, T]] = []
    clause = T.SEMICOLON
    for token in tokens[:at]:
        if token.token_type is T.L_PAREN:
            opened.append((token, clause))
        elif token.token_type is T.R_PAREN:
            clause = opened.pop()[1] if opened else clause
        elif token.token_type in _EXPECTED:
            clause = token.token_type
    return clause, opened[-1][0] if opened else None


def _wrong(text: str, token: Token, why: str, expected: str = "") -> SqlParseError:
    line, column = _place(text, token)
    written = text[token.start : token.end + 1]
    wanted = f"; expected {expected}" if expected else ""
    error = SqlParseError(f"Incorrect syntax near {written[:60]!r}: {why}{wanted}", line, column, written[:60])
    if expected:
        error.context["expected"] = expected
    return error


def _place(text: str, token: Token) -> tuple[int, int]:
    return _line_column(text, token.start)


def _line_column(text: str, start: int) -> tuple[int, int]:
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
