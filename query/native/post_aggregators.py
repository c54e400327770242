"""Post-aggregators: values computed from a group's aggregates, one level of SELECT each."""

from __future__ import annotations

from dataclasses import dataclass, field

from query.errors import InvalidQuery
from query.native import histograms
from query.native.expression_functions import as_type
from query.native.expressions import Compiler, parsed
from query.native.request import Part
from query.native.rows import constant, plain, small_enough
from query.native.sketches import POST_AGGREGATORS
from query.sql import term as t
from query.sql.casts import as_number, cast_to
from query.sql.frame import Session
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE


@dataclass(frozen=True, slots=True)
class Names:
    """What a name of the answer means: a dimension, an aggregate or an earlier post-aggregate.

    ``sketches`` are aggregates of which the answer tells the estimate, as they are.
    """

    final: dict[str, Term]
    sketches: dict[str, Term] = field(default_factory=dict)

    def __call__(self, name: str) -> Term:
        return self.final.get(name) or t.null(BIGINT)

    def sketch(self, name: str) -> Term:
        """The sketch of that name, where there is one."""
        return self.sketches.get(name) or self(name)


_SYMBOLS = ("+", "-", "*")
_REFUSED = """
javascript quantileFromTDigestSketch
quantilesFromTDigestSketch momentSketchSolveQuantiles momentSketchMin momentSketchMax percentileSpectatorHistogram
percentilesSpectatorHistogram
"""
_NOT_BUILT = frozenset(_REFUSED.split())


def post_aggregate(session: Session, part: Part, names: Names) -> Term:
    """One post-aggregator.

    Raises:
        QueryError: it is unknown, not built, or does not fit.
    """
    kind = part.type
    if kind in ("fieldAccess", "finalizingFieldAccess", "hyperUniqueCardinality"):
        return names(part.text("fieldName", "name"))
    if kind == "constant":
        value = part.get("value")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidQuery(f"{part.at('value')}: a number is needed")
        return constant(value).typed(BIGINT if isinstance(value, int) else DOUBLE)
    if kind == "arithmetic":
        return _arithmetic(session, part, names)
    if kind == "expression":
        found = plain(Compiler(session, names, sketch=names.sketch).term(parsed(part.text("expression"))))
        return as_type(found, part.text("outputType")) if part.has("outputType") else found
    if kind in ("longGreatest", "longLeast", "doubleGreatest", "doubleLeast"):
        return _extreme(session, part, names)
    return _asked(session, part, names)


def _asked(session: Session, part: Part, names: Names) -> Term:
    """A post-aggregator that asks what stands behind an aggregate's answer."""
    kind = part.type
    if kind in ("stddev", "variance"):
        found = cast_to(as_number(names(part.text("fieldName"))), DOUBLE)
        return found if kind == "variance" else t.call("sqrt", DOUBLE, found.sql)
    if kind in histograms.POST_AGGREGATORS:
        return histograms.asked(session, part, names.sketch(part.text("fieldName")))
    if kind in POST_AGGREGATORS:
        return POST_AGGREGATORS[kind](session, part, lambda inner: _sketch_of(session, inner, names))
    if kind in _NOT_BUILT:
        raise part.unsupported("the post-aggregator")
    raise part.unknown_type("post-aggregator")


def _sketch_of(session: Session, part: Part, names: Names) -> Term:
    """What the field of a sketch's post-aggregator means: the sketch itself, not its estimate."""
    if part.type == "fieldAccess":
        return names.sketch(part.text("fieldName", "name"))
    return post_aggregate(session, part, names)


def _fields(session: Session, part: Part, names: Names) -> list[Term]:
    terms = [as_number(post_aggregate(session, field, names)) for field in part.parts("fields")]
    if not terms:
        raise InvalidQuery(f"{part.at('fields')}: at least one is needed")
    return terms


def _arithmetic(session: Session, part: Part, names: Names) -> Term:
    """Always a double. A division by zero is 0 with ``/``, and what Java makes of it with ``quotient``."""
    symbol = part.text("fn")
    fields = _fields(session, part, names)
    if len(fields) < 2:
        raise InvalidQuery(f"{part.at('fields')}: at least two are needed")
    result, *others = (cast_to(one, DOUBLE).sql for one in fields)
    for other in others:
        if symbol in _SYMBOLS:
            result = f"({result} {symbol} {other})"
        elif symbol == "/":
            # Over infinity is 0, and null stays null; the sum makes -0 a 0.
            result = f"({result} / CASE WHEN {other} = 0 THEN CAST('Infinity' AS DOUBLE) ELSE {other} END + 0.0)"
        elif symbol == "quotient":
            result = f"({result} / {other})"
        elif symbol == "pow":
            result = f"pow({result}, {other})"
        else:
            raise InvalidQuery(f"{part.at('fn')}: {symbol!r} is none of + - * / quotient pow")
    return small_enough(Term(f"CAST({result} AS DOUBLE)", DOUBLE))


def _extreme(session: Session, part: Part, names: Names) -> Term:
    type_ = BIGINT if part.type.startswith("long") else DOUBLE
    inside = ", ".join(cast_to(one, type_).sql for one in _fields(session, part, names))
    return t.call("greatest" if part.type.endswith("Greatest") else "least", type_, inside)
