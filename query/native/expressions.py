"""Compiles Druid's expression language for DuckDB: operators by its type rules, functions by their own table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from query.errors import InvalidQuery
from query.native.rows import Rows, plain, small_enough
from query.sql import term as t
from query.sql.casts import as_number, cast_to
from query.sql.comparison import compare
from query.sql.frame import Frame, Session, per_member
from query.sql.multi_value import any_member, mapped
from query.sql.operators import arithmetic
from query.sql.scope import Scope
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, VARCHAR, Family, SqlType, array_of
from segments.errors import InvalidExpression
from segments.expression.parser import parse_expression
from segments.expression.tree import ArrayConstant, Binary, Call, Constant, Expression, Identifier, Lambda, Unary

NAMED_TYPES = {
    "STRING": VARCHAR,
    "LONG": BIGINT,
    "DOUBLE": DOUBLE,
    "FLOAT": FLOAT,
    "ARRAY<STRING>": array_of(VARCHAR),
    "ARRAY<LONG>": array_of(BIGINT),
    "ARRAY<DOUBLE>": array_of(DOUBLE),
    "ARRAY<FLOAT>": array_of(DOUBLE),
}
_COMPARISONS = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "==": "=", "!=": "<>"}
FunctionRule = Callable[["Compiler", Call], Term]
FUNCTIONS: dict[str, FunctionRule] = {}


def named_type(name: str) -> SqlType:
    """A type by Druid's native name.

    Raises:
        InvalidQuery: there is no such type.
    """
    found = NAMED_TYPES.get(name.upper())
    if found is None:
        raise InvalidQuery(f"type {name!r} is none of {', '.join(NAMED_TYPES)}")
    return found


def function(*names: str) -> Callable[[FunctionRule], FunctionRule]:
    """Registers the rule of functions by their names in lower case."""

    def register(rule: FunctionRule) -> FunctionRule:
        for name in names:
            FUNCTIONS[name] = rule
        return rule

    return register


def compiled(rows: Rows, text: str) -> Term:
    """The value of an expression over rows; truth values are the longs 1 and 0.

    Raises:
        InvalidQuery: it is not an expression, or its types do not fit.
        UnsupportedQuery: it calls a function that is not built.
    """
    return plain(Compiler(rows.session, rows.column).mapped(parsed(text)))


def condition(rows: Rows, text: str) -> str:
    """An expression as a condition: a number is true above 0, a multi-value one when any member is."""
    compiler, tree = Compiler(rows.session, rows.column), parsed(text)
    if isinstance(tree, Binary) and tree.operator == "==":
        # Any member, without a list of what each of them gives.
        return compiler.condition(tree)
    return compiler.as_condition(compiler.mapped(tree))


def parsed(text: str) -> Expression:
    """The tree of an expression.

    Raises:
        InvalidQuery: it is none.
    """
    try:
        return parse_expression(text)
    except InvalidExpression as error:
        raise InvalidQuery(str(error)) from error


def is_untyped(tree: Expression) -> bool:
    """Whether each value has a type of its own: that of a JSON scalar."""
    return isinstance(tree, Call) and tree.name == "json_value" and len(tree.arguments) == 2


@dataclass(slots=True)
class Compiler:
    """Compiles trees; ``column`` says what a name means, ``sketch`` where a sketch is asked for.

    With ``whole``, the compiler around, a multi-value string means one of its members; ``members`` are then those
    strings with the member's name.
    """

    session: Session
    column: Callable[[str], Term]
    bound: dict[str, Term] = field(default_factory=dict)
    sketch: Callable[[str], Term] | None = None
    whole: Compiler | None = None
    members: dict[str, str] = field(default_factory=dict)

    @property
    def frame(self) -> Frame:
        """A frame for the rules of SQL."""
        return Frame(self.session, Scope(), clause="an expression")

    def term(self, tree: Expression) -> Term:
        """The term of a tree; comparisons are BOOLEAN here, for the sake of conditions."""
        return small_enough(self._translated(tree))

    def _translated(self, tree: Expression) -> Term:
        if isinstance(tree, Constant):
            return t.constant(tree.value)
        if isinstance(tree, ArrayConstant):
            type_ = array_of(NAMED_TYPES[tree.element])
            return Term(f"CAST([{', '.join(t.constant(one).sql for one in tree.values)}] AS {type_.duckdb})", type_)
        if isinstance(tree, Identifier):
            return self._named(tree.name)
        if isinstance(tree, Unary):
            return self._unary(tree)
        if isinstance(tree, Binary):
            return self._binary(tree)
        if isinstance(tree, Lambda):
            raise InvalidQuery("a lambda stands only before the array it is for")
        from query.native import expression_folds, expression_functions, expression_json

        assert expression_folds and expression_json, "importing them registers their functions"
        return expression_functions.called(self, tree)

    def value(self, tree: Expression) -> Term:
        """The term with truth values as longs."""
        return plain(self.term(tree))

    def mapped(self, tree: Expression) -> Term:
        """The value of a whole expression: for each member of the multi-value strings in it, as Druid maps it."""
        if isinstance(tree, Identifier):
            return self.term(tree)
        inside = Compiler(self.session, self.column, self.bound, self.sketch, self)
        found = inside.term(tree)
        several = found.type.multi or found.family in (Family.ARRAY, Family.COMPLEX)
        if inside.members and several:
            # What a list is made of for each member has no type: the functions see whole lists.
            return self.term(tree)
        return mapped(tuple(inside.members.items()), plain(found)) if inside.members else found

    def condition(self, tree: Expression) -> str:
        """The tree as a condition."""
        return self.as_condition(self.term(tree))

    def as_condition(self, found: Term) -> str:
        """A value as a condition: of several values any that is true."""
        if found.type.multi:
            return any_member(self.session.fresh("x"), found, lambda member: cast_to(member, BOOLEAN).sql)
        if found.family is Family.ARRAY:
            raise InvalidQuery("an array is no condition")
        return found.sql if found.family is Family.BOOLEAN else cast_to(found, BOOLEAN).sql

    def each(self, build: Callable[[Compiler], Term]) -> Term:
        """What ``build`` compiles; where that is text and looks at multi-value strings, for each of their members."""
        found = build(self)
        if found.family is not Family.STRING or self.whole is not None:
            return found
        inside = Compiler(self.session, self.column, self.bound, self.sketch, self)
        chosen = build(inside)
        return mapped(tuple(inside.members.items()), chosen) if inside.members else found

    def _named(self, name: str) -> Term:
        found = self.bound[name] if name in self.bound else self.column(name)
        if self.whole is None or not found.type.multi:
            return found
        self.members[found.sql] = self.session.member(found.sql)
        return Term(self.members[found.sql], found.type.member)

    def inside(self, lambda_: Lambda, *members: Term) -> Compiler:
        """A compiler for a lambda's body.

        Raises:
            InvalidQuery: it has another number of parameters.
        """
        if len(lambda_.parameters) != len(members):
            raise InvalidQuery(f"the lambda takes {len(lambda_.parameters)} parameters, {len(members)} are given")
        bound = self.bound | dict(zip(lambda_.parameters, members, strict=True))
        return Compiler(self.session, self.column, bound, self.sketch)

    def _unary(self, tree: Unary) -> Term:
        if tree.operator == "!":
            return t.expression(f"NOT {self.condition(tree.operand)}", BOOLEAN)
        operand = as_number(self.value(tree.operand))
        return t.expression(f"-{operand.sql}", operand.type)

    def _binary(self, tree: Binary) -> Term:
        if tree.operator in ("&&", "||"):
            word = "AND" if tree.operator == "&&" else "OR"
            return t.expression(f"{self.condition(tree.left)} {word} {self.condition(tree.right)}", BOOLEAN)
        pair = [self.value(tree.left), self.value(tree.right)]
        for at, (side, other) in enumerate(((tree.left, pair[1]), (tree.right, pair[0]))):
            if is_untyped(side) and other.family in (Family.LONG, Family.DOUBLE):
                pair[at] = as_number(pair[at])
        if tree.operator == "!=" and any(side.type.multi for side in pair):
            # One member that differs is enough, where SQL asks for none that is equal.
            return per_member(self.frame, pair, lambda frame, both: compare(frame, "<>", *both))
        if tree.operator in _COMPARISONS:
            # A text beside a number is a double here, where SQL gives it the number's type.
            numeric = any(side.family in (Family.LONG, Family.DOUBLE) for side in pair)
            pair = [as_number(one) if numeric and _is_text(one) else one for one in pair]
            return compare(self.frame, _COMPARISONS[tree.operator], *pair)
        return per_member(self.frame, pair, lambda frame, both: _computed(frame, tree.operator, *both))


def _is_text(term: Term) -> bool:
    return term.family is Family.STRING and not term.type.multi


def _computed(frame: Frame, operator: str, left: Term, right: Term) -> Term:
    if operator == "+" and left.family is right.family is Family.STRING:
        return t.expression(f"{left.sql} || {right.sql}", VARCHAR)
    if operator != "^":
        # A text beside a number is a double here, where SQL gives it the number's type.
        sides = [as_number(one) if one.family is Family.STRING else one for one in (left, right)]
        return arithmetic(frame, operator, *sides)
    sides = [as_number(side) for side in (left, right)]
    power = t.call("pow", DOUBLE, *(cast_to(side, DOUBLE).sql for side in sides))
    if all(side.family is Family.LONG for side in sides):
        return Term(f"TRY_CAST({power.sql} AS BIGINT)", BIGINT)
    return power
