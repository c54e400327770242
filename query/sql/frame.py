"""Translates one expression: finds the rule of its kind and knows what the expression may see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from query.errors import InvalidQuery, QueryError, SqlParseError, UnknownName, UnsupportedQuery
from query.model import FunctionUse, SqlParameter
from query.splits import Splitting
from query.sql.multi_value import mapped
from query.sql.scope import OpenTable, Scope, where
from query.sql.term import Term

if TYPE_CHECKING:
    from query.sql.catalogue import Catalogue
    from query.sql.select import QueryPlanner

Arguments = list[exp.Expr]
NodeRule = Callable[["Frame", exp.Expr], Term]
ScalarRule = Callable[["Frame", list[Term]], Term]
FunctionRule = Callable[["Frame", Arguments], Term]

NODES: dict[type[exp.Expr], NodeRule] = {}
PARTS: dict[type[exp.Expr], frozenset[str]] = {}
FUNCTIONS: dict[str, FunctionRule] = {}
ARITIES: dict[str, tuple[int, int]] = {}
AGGREGATES: set[str] = set()
WINDOW_ONLY: set[str] = set()
REFUSED = {
    "TDIGEST_GENERATE_SKETCH": "it comes with a community extension of Druid; use DS_QUANTILES_SKETCH",
    "CURRENT_TIME": "a time of day is no type of Druid's either; use CURRENT_TIMESTAMP",
    "LOCALTIME": "a time of day is no type of Druid's either; use LOCALTIMESTAMP",
    "ROW": "Druid refuses it as well, but for rows beside = and IN; use ARRAY",
    "ITEM": "Druid refuses it as well; use ARRAY_OFFSET (from 0) or ARRAY_ORDINAL (from 1)",
    "LITERAL_AGG": "Druid lists it and refuses it as well",
    "REINTERPRET": "Druid lists it and refuses it as well",
    "SEARCH": "Druid lists it and refuses it as well",
}
"""Functions that are not built, each with why and what to use instead."""
ELSEWHERE = {
    "CHARINDEX": "STRPOS",
    "CONVERT": "CAST(x AS type)",
    "DATE_ADD": "TIMESTAMPADD",
    "DATE_FORMAT": "TIME_FORMAT",
    "DATE_SUB": "TIMESTAMPADD",
    "FROM_UNIXTIME": "MILLIS_TO_TIMESTAMP(1000 * x)",
    "GETDATE": "CURRENT_TIMESTAMP",
    "GROUP_CONCAT": "STRING_AGG",
    "IF": "CASE WHEN x THEN y ELSE z END",
    "IIF": "CASE WHEN x THEN y ELSE z END",
    "INSTR": "STRPOS",
    "ISNULL": "x IS NULL, or NVL(x, y)",
    "LCASE": "LOWER",
    "LEN": "LENGTH",
    "LOG": "LN or LOG10",
    "NOW": "CURRENT_TIMESTAMP",
    "STR_TO_DATE": "TIME_PARSE",
    "TO_CHAR": "TIME_FORMAT, or CAST(x AS VARCHAR)",
    "TO_DATE": "TIME_PARSE",
    "TO_TIMESTAMP": "TIME_PARSE",
    "UCASE": "UPPER",
    "UNIX_TIMESTAMP": "TIMESTAMP_TO_MILLIS(x) / 1000",
}
"""What Druid has instead of functions of other engines."""
MANY = 1_000


def node(*kinds: type[exp.Expr], parts: str = "this expression") -> Callable[[NodeRule], NodeRule]:
    """Registers the rule for kinds of tree nodes; a kind without a rule is refused.

    ``parts`` are the node's arguments that the rule reads; one that says more is refused too.
    """

    def register(rule: NodeRule) -> NodeRule:
        for kind in kinds:
            NODES[kind] = rule
            PARTS[kind] = frozenset(parts.split())
        return rule

    return register


def function(*names: str, least: int = 1, most: int | None = None) -> Callable[[FunctionRule], FunctionRule]:
    """Registers the rule for functions by name; a name without a rule is refused. ``most`` defaults to ``least``."""

    def register(rule: FunctionRule) -> FunctionRule:
        for name in names:
            FUNCTIONS[name] = rule
            ARITIES[name] = (least, least if most is None else most)
        return rule

    return register


def scalar(*names: str, least: int = 1, most: int | None = None) -> Callable[[ScalarRule], ScalarRule]:
    """Registers a function of translated arguments; a multi-value argument is changed member by member."""

    def register(rule: ScalarRule) -> ScalarRule:
        def on_terms(frame: Frame, arguments: Arguments) -> Term:
            return per_member(frame, [frame.term(argument) for argument in arguments], rule)

        function(*names, least=least, most=most)(on_terms)
        return rule

    return register


def per_member(frame: Frame, terms: list[Term], rule: ScalarRule) -> Term:
    """Applies a rule to terms, of which some may hold several values: to each combination of their members."""
    lists: dict[str, str] = {}
    single: list[Term] = []
    for term in terms:
        if not term.type.multi:
            single.append(term)
            continue
        from_, member = term.lists, term.member
        if not from_:
            member = frame.session.member(term.sql)
            from_ = ((term.sql, member),)
        lists.update(from_)
        single.append(Term(member, term.type.member))
    found = rule(frame, single)
    return mapped(tuple(lists.items()), found) if lists else found


LARGEST_CHARS = 500_000
"""What one expression of a statement of usual length may become."""
_LARGE_CHARS, _LARGE_TOGETHER = 20_000, 20


@dataclass(slots=True)
class Session:
    """What holds for the whole statement; with ``splitting`` it is translated to read groups of parts of its table."""

    catalogue: Catalogue
    zone: str
    now_ms: int
    planner: QueryPlanner
    parameters: tuple[SqlParameter, ...] = ()
    tables: list[OpenTable] = field(default_factory=list)
    counter: int = 0
    markers: dict[int, int] = field(default_factory=dict)
    functions: dict[str, FunctionUse] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    choosing: set[int] = field(default_factory=set)
    """The comparisons that rows are chosen by."""
    told_time: bool = False
    large_chars: int = LARGEST_CHARS
    """What one expression may become; several times that all large ones together."""
    large_written: int = 0
    splitting: Splitting | None = None

    def now(self) -> int:
        """What CURRENT_TIMESTAMP means, in ms UTC; a statement that asks means something else at another time."""
        self.told_time = True
        return self.now_ms

    def sized(self, term: Term) -> Term:
        """The term again. One that is used twice in the next, and that again, would grow without bound.

        Raises:
            InvalidQuery: it, or all of its kind together, are too large.
        """
        size = len(term.sql)
        if size > _LARGE_CHARS:
            self.large_written += size
            if size > self.large_chars or self.large_written > _LARGE_TOGETHER * self.large_chars:
                raise InvalidQuery("an expression is too large: functions inside each other repeat what they are given")
        return term

    def member(self, list_sql: str) -> str:
        """What a member of a list is called wherever that list is gone through."""
        if list_sql not in self.members:
            self.members[list_sql] = self.fresh("x")
        return self.members[list_sql]

    def fresh(self, prefix: str) -> str:
        """An internal name that occurs once in the statement."""
        self.counter += 1
        return f"{prefix}{self.counter}"

    def kernel(self, name: str) -> str:
        """The name of a kernel's function, which the engine then provides."""
        self.functions.setdefault(name, FunctionUse(name))
        return name

    def lookup_function(self, lookup: str, where: dict[str, str] | None = None) -> str:
        """The name of the function that gives a lookup's value of a key, the same for the whole statement.

        Raises:
            UnknownName: there is no such lookup.
        """
        if not self.catalogue.has_lookup(lookup):
            raise UnknownName("Lookup", lookup, self.catalogue.lookup_names(), where)
        key = f"lookup {lookup}"
        if key not in self.functions:
            self.functions[key] = FunctionUse(self.fresh("lookup_"), lookup)
        return self.functions[key].name


@dataclass(slots=True)
class Frame:
    """The place an expression stands in.

    ``keys`` is None where rows are seen one by one; after grouping it maps the text of every group key to
    the term that stands for it, and ``rows`` is then the frame of what is inside aggregates. ``aliases`` are
    names of the select list, looked at when no column has the name (or first, with ``aliases_first``).
    ``pinned`` maps multi-value strings to the text that WHERE sets them equal to. With ``whole``, the frame around,
    a multi-value column means one of its members; ``members`` are then those strings with the member's name.
    """

    session: Session
    scope: Scope
    keys: dict[str, Term] | None = None
    rows: Frame | None = None
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    aliases_first: bool = False
    named_windows: dict[str, exp.Window] = field(default_factory=dict)
    clause: str = "this place"
    pinned: dict[str, Term] = field(default_factory=dict)
    whole: Frame | None = None
    members: dict[str, str] = field(default_factory=dict)
    _seen: dict[int, Term] = field(default_factory=dict)

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.session.zone

    def term(self, tree: exp.Expr | None) -> Term:
        """Translates an expression.

        Raises:
            QueryError: it means nothing here.
        """
        key = id(tree)
        if key not in self._seen:
            self._seen[key] = self._translate(tree)
        return self._seen[key]

    def _translate(self, tree: exp.Expr | None) -> Term:
        if tree is None:
            # What the parser makes of nothing between two commas, or before a bracket.
            raise SqlParseError("an expression is missing")
        if self.keys is not None and self.rows is not None and not _beyond_rows(tree):
            stands_for = self._group_key(tree)
            if stands_for is not None:
                return stands_for
        rule = NODES.get(type(tree))
        if rule is None:
            raise UnsupportedQuery(f"{tree.key.upper()} is not supported", where(tree))
        refuse_parts(tree, PARTS[type(tree)])
        try:
            found = self.session.sized(rule(self, tree))
            return self._member(found) if self.whole and isinstance(tree, exp.Column) and found.type.multi else found
        except QueryError as error:
            error.context = error.context or where(tree)
            raise

    def _member(self, found: Term) -> Term:
        self.members[found.sql] = self.session.member(found.sql)
        return Term(self.members[found.sql], found.type.member)

    def by_member(self) -> Frame:
        """The same place with one member of every multi-value column."""
        rest = self.named_windows, self.clause, self.pinned
        return Frame(self.session, self.scope, self.keys, self.rows, self.aliases, self.aliases_first, *rest, self)

    def _group_key(self, tree: exp.Expr) -> Term | None:
        assert self.keys is not None and self.rows is not None
        if isinstance(tree, exp.Column) and self._alias(tree) is not None:
            return None
        try:
            return self.keys.get(self.rows.term(tree).sql)
        except (UnsupportedQuery, UnknownName):
            # Not of rows: a name may be that of the select list.
            return None

    def _alias(self, tree: exp.Column) -> exp.Expr | None:
        aliased = None if tree.table else self.aliases.get(tree.name)
        if aliased is None or (not self.aliases_first and self.scope.has(tree.name)):
            return None
        # An alias that hides the column it is made of means the column inside itself.
        return None if aliased is tree or any(part is tree for part in aliased.walk()) else aliased

    def forget(self) -> None:
        """Translates anew what is asked for from now on."""
        self._seen.clear()

    def column(self, tree: exp.Column) -> Term:
        """The column or alias of the select list that a name means, seen from here."""
        aliased = self._alias(tree)
        if aliased is not None:
            plain = Frame(self.session, self.scope, self.keys, self.rows, named_windows=self.named_windows)
            return plain.term(aliased)
        try:
            found = self.scope.column(tree)
        except UnknownName:
            around = self.scope.around(tree)
            if around is None:
                raise
            return around
        if self.keys is None:
            return found
        if found.sql in self.keys:
            return self.keys[found.sql]
        raise InvalidQuery(f"Expression {tree.sql()!r} is not being grouped", where(tree))

    def session_term(self, tree: exp.Expr) -> Term:
        """Translates an expression that may see no column: a limit, an argument that must be constant."""
        return Frame(self.session, Scope(), clause="a constant").term(tree)

    def call(self, tree: exp.Anonymous) -> Term:
        """Translates a call by its name."""
        name = tree.name.upper()
        rule = FUNCTIONS.get(name)
        if name in REFUSED:
            raise UnsupportedQuery(f"{name} is not supported: {REFUSED[name]}", where(tree))
        if name in WINDOW_ONLY:
            raise InvalidQuery(f"{name} is a window function: OVER (ORDER BY ...) must follow it", where(tree))
        if rule is None or isinstance(tree.this, exp.Identifier):
            cure = f"; use {ELSEWHERE[name]}" if name in ELSEWHERE else ""
            raise UnknownName("Function", tree.name, () if cure else FUNCTIONS, where(tree), cure=cure)
        least, most = ARITIES[name]
        count = len(tree.expressions)
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} or more" if most >= MANY else f"{least} to {most}"
            raise InvalidQuery(f"{name} takes {wanted} arguments, not {count}", where(tree))
        return rule(self, tree.expressions)


def refuse_parts(tree: exp.Expr, known: frozenset[str]) -> None:
    """Refuses a node that says more than is read, so that nothing is silently left out.

    Raises:
        UnsupportedQuery: with the name of the part.
    """
    for name, value in tree.args.items():
        if value and name not in known:
            raise UnsupportedQuery(f"{tree.key.upper()} with {name.strip('_').upper()} is not supported", where(tree))


def is_aggregate(tree: exp.Expr) -> bool:
    """True for the call of an aggregate function."""
    return isinstance(tree, exp.Anonymous) and isinstance(tree.this, str) and tree.this.upper() in AGGREGATES


def holds_aggregate(tree: exp.Expr) -> bool:
    """True when an aggregate over the rows of this SELECT occurs in an expression."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Query):
            continue
        if is_aggregate(part):
            return True
        children = _children(part)
        if isinstance(part, exp.Window):
            # The function before OVER is no aggregate of the rows; what it is given may be.
            children = [child for child in children if child is not part.this]
            children += _children(_bare_call(part.this))
        waiting += children
    return False


def _bare_call(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        tree = tree.this
    return tree


def _children(tree: exp.Expr) -> list[exp.Expr]:
    return [part for value in tree.args.values() for part in _as_list(value)]


def _as_list(value: object) -> list[exp.Expr]:
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, exp.Expr)]


def _beyond_rows(tree: exp.Expr) -> bool:
    """True for what can never be the text of a group key."""
    return isinstance(tree, exp.Literal | exp.Window | exp.Subquery | exp.Exists | exp.Null) or holds_aggregate(tree)
