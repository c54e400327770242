"""Reads a statement's text into a sqlglot tree in which every function is an anonymous call by its own name."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.druid import Druid
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import Parser as BaseParser
from sqlglot.parsers.druid import DruidParser
from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer as BaseTokenizer

from query.errors import InvalidQuery, SqlParseError, position
from query.sql.mistakes import check, explained, unclosed

_KEYWORD_FORMS = ("CAST", "CEIL", "FLOOR", "EXTRACT", "SUBSTRING", "TRIM")
_PREFIX = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_EXPLAIN = re.compile(
    r"EXPLAIN\s+PLAN(\s+(IN|EX)CLUDING\s+(ALL\s+)?ATTRIBUTES)?(\s+WITH(OUT)?\s+IMPLEMENTATION|\s+WITH\s+TYPE)?(\s+FOR)?\s",
    re.IGNORECASE,
)
_SET = re.compile(r"SET\s+(\"?)(?P<key>\w+)\1\s*=\s*(?P<value>'(?:[^']|'')*'|[-+]?[\w.]+)\s*;", re.IGNORECASE)
# Statements that are no queries are refused by us; sqlglot need not warn of them as well.
logging.getLogger("sqlglot").setLevel(logging.ERROR)
_INSTEAD = {
    "EXPLAIN": "; write EXPLAIN PLAN FOR in front of one",
    "SHOW": "; tables are listed by SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES",
    "DESCRIBE": "; columns are listed by SELECT COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS",
}
MAX_STATEMENT_CHARS = 10_000_000
MAX_TOKENS = 110_000
"""A second or two of planning: a list of 50,000 values fits."""
_ROUGH_TOKEN = re.compile(
    r"\s{1,32}|'(?:[^']|'')*+'?|\"(?:[^\"]|\"\")*+\"?|--[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?|[\w$]++|[|<>!=]{1,2}|.",
    re.DOTALL,
)


def _position_call(parser: Any) -> exp.Expr:
    """POSITION(needle IN text [FROM start]), which the base parser knows without its last part."""
    needle = parser._parse_bitwise()
    if not parser._match(TokenType.IN):
        parser.raise_error("POSITION needs IN")
    # A primary, not an expression, so that a following FROM stays ours.
    args = [needle, parser._parse_type() if parser._curr.token_type != TokenType.L_PAREN else parser._parse_bitwise()]
    if parser._match(TokenType.FROM):
        args.append(parser._parse_bitwise())
    return exp.Anonymous(this="POSITION", expressions=args)


def _json_value_call(parser: Any) -> exp.Expr:
    """JSON_VALUE(document, path [RETURNING type] [NULL ON EMPTY] [NULL ON ERROR])."""
    args = [parser._parse_bitwise()]
    if parser._match(TokenType.COMMA):
        args.append(parser._parse_bitwise())
    if parser._match_text_seq("RETURNING"):
        args.append(parser._parse_types())
    while parser._match_texts(("NULL", "ERROR", "DEFAULT")):
        # What is missing or another type is NULL, as it is without these words.
        if parser._prev.text.upper() != "NULL" or not parser._match(TokenType.ON):
            parser.raise_error("JSON_VALUE takes NULL ON EMPTY and NULL ON ERROR; Druid reads no others either")
        if not parser._match_texts(("EMPTY", "ERROR")):
            parser.raise_error("JSON_VALUE takes NULL ON EMPTY and NULL ON ERROR")
    return exp.Anonymous(this="JSON_VALUE", expressions=args)


def _json_object_call(parser: Any) -> exp.Expr:
    """JSON_OBJECT([KEY] key VALUE value, ...) or JSON_OBJECT(key : value, ...)."""
    pairs = []
    while parser._curr.token_type != TokenType.R_PAREN:
        parser._match_text_seq("KEY")
        key = parser._parse_primary() or parser._parse_column()
        if not parser._match(TokenType.COLON) and not parser._match_text_seq("VALUE"):
            parser.raise_error("JSON_OBJECT needs VALUE or a colon after a key")
        pairs.append(exp.PropertyEQ(this=key, expression=parser._parse_disjunction()))
        if not parser._match(TokenType.COMMA):
            break
    return exp.Anonymous(this="JSON_OBJECT", expressions=pairs)


class SqlParser(DruidParser):
    """The base parser without its function table: what a name means is for the rules to say."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS = {
        **{name: BaseParser.FUNCTION_PARSERS[name] for name in _KEYWORD_FORMS},
        "POSITION": _position_call,
        "ROW": lambda self: exp.Tuple(expressions=self._parse_csv(self._parse_disjunction)),
        "JSON_VALUE": _json_value_call,
        "JSON_OBJECT": _json_object_call,
    }
    NO_PAREN_FUNCTIONS = {
        token: BaseParser.NO_PAREN_FUNCTIONS[token] for token in (TokenType.CURRENT_DATE, TokenType.CURRENT_TIMESTAMP)
    }
    NO_PAREN_FUNCTION_PARSERS = {"CASE": BaseParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    FUNC_TOKENS = BaseParser.FUNC_TOKENS | {TokenType.DIV}
    PLACEHOLDER_PARSERS = {
        TokenType.PLACEHOLDER: lambda self: exp.Placeholder().update_positions(self._prev),
    }

    def _parse_join(self, *args: Any, **named: Any) -> Any:
        """One that is neither a comma nor CROSS nor NATURAL has a condition; the base parser does without."""
        is_comma = self._curr is not None and self._curr.token_type is TokenType.COMMA
        join = super()._parse_join(*args, **named)
        if join is None or is_comma or join.args.get("on") or join.args.get("using"):
            return join
        if join.args.get("kind") != "CROSS" and join.args.get("method") != "NATURAL":
            self.raise_error("a JOIN has no condition; expected ON, USING, or CROSS JOIN")
        return join


class SqlDialect(Druid):
    """Druid's SQL as we read it."""

    class Tokenizer(BaseTokenizer):
        """The base one, with texts that name characters by their numbers: U&'\\00fc'."""

        UNICODE_STRINGS: ClassVar[list[Any]] = [("U&'", "'"), ("u&'", "'")]

    Parser = SqlParser


@dataclass(frozen=True, slots=True)
class Statement:
    """One parsed statement. ``settings`` come from SET statements in front of it."""

    tree: exp.Expr
    explain: bool = False
    settings: dict[str, object] = field(default_factory=dict)

    def copied(self) -> Statement:
        """The same with a tree of its own, for who changes it."""
        return replace(self, tree=self.tree.copy())


def parse_statement(text: str) -> Statement:
    """Reads one query with what may stand around it: SET statements, EXPLAIN PLAN FOR, a final semicolon.

    Raises:
        SqlParseError: not SQL, not one statement, too long or too deeply nested.
        InvalidQuery: a statement that is not a query.
    """
    if len(text) > MAX_STATEMENT_CHARS:
        raise SqlParseError(f"the statement has {len(text)} characters; at most {MAX_STATEMENT_CHARS} are read")
    settings, start = _leading_settings(text)
    explain = _EXPLAIN.match(text, start)
    body = _blank(text, explain.end() if explain else start)
    trees = [tree for tree in _trees(body) if tree is not None and not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1:
        raise SqlParseError("the statement is empty: a query begins with SELECT, WITH or VALUES")
    tree = trees[0]
    if not isinstance(tree, exp.Query | exp.Values):
        verb = _verb(tree)
        start = len(body) - len(body.lstrip())
        line, column = body.count("\n", 0, start) + 1, start - body.rfind("\n", 0, start)
        told = f"{verb} is not supported: only SELECT, WITH, VALUES and UNION ALL are queries"
        raise InvalidQuery(f"{told}{_INSTEAD.get(verb, '')}", position(line, column, verb))
    return Statement(tree, explain is not None, settings)


def _leading_settings(text: str) -> tuple[dict[str, object], int]:
    settings: dict[str, object] = {}
    position = _skip(text, 0)
    while match := _SET.match(text, position):
        settings[match["key"]] = _setting(match["value"])
        position = _skip(text, match.end())
    return settings, position


def _skip(text: str, position: int) -> int:
    match = _PREFIX.match(text, position)
    return match.end() if match else position


def _setting(text: str) -> object:
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.upper() in ("TRUE", "FALSE"):
        return text.upper() == "TRUE"
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _blank(text: str, end: int) -> str:
    """Blanks out what was read already, so that lines and columns of errors stay true."""
    return re.sub(r"[^\n]", " ", text[:end]) + text[end:]


def _trees(text: str) -> list[exp.Expr | None]:
    try:
        dialect = SqlDialect()
        if len(text) > MAX_TOKENS and _has_too_many_tokens(text):
            raise SqlParseError(
                f"the statement has more than {MAX_TOKENS} words and signs, which are as many as are read"
            )
        tokens = dialect.tokenize(text)
        if len(tokens) > MAX_TOKENS:
            raise SqlParseError(f"the statement has {len(tokens)} words and signs; at most {MAX_TOKENS} are read")
        check(text, tokens)
        return list(dialect.parser().parse(tokens, text))
    except ParseError as error:
        raise explained(text, tokens, error) from error
    except TokenError as error:
        raise unclosed(text) from error
    except RecursionError as error:
        raise SqlParseError("the statement is nested too deeply") from error


def _has_too_many_tokens(text: str) -> bool:
    """A quick count, before the parser's own reading takes minutes and holds up the process.

    White space and comments count as well (a separator for each word is allowed for), long ones several times.
    """
    limit = 2 * MAX_TOKENS + 1
    return any(count >= limit for count, _ in enumerate(_ROUGH_TOKEN.finditer(text), 1))


def _verb(tree: exp.Expr) -> str:
    return str(tree.this).upper() if isinstance(tree, exp.Command) else tree.key.upper()
