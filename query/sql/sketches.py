"""What SQL and native queries share about sketches: their types, their sizes, and the calls that make and ask them."""

from __future__ import annotations

from query.errors import InvalidQuery
from query.sql import term as t
from query.sql.casts import as_number, as_string, cast_to
from query.sql.frame import Session
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, Family, SqlType
from segments.sketch.shape import SketchKind, SketchShape, kind_of

DISTINCT_KINDS = (SketchKind.HLL, SketchKind.THETA)
"""Kinds that a repeated value does not change."""


def spec_of(shape: SketchShape) -> str:
    """The shape as a text constant, for kernels; see ``shape_of``."""
    return t.text_sql(f"{shape.kind.value}:{shape.size}:{shape.hll_type}:{shape.encoding}:{shape.values}")


def shape_of(spec: str) -> SketchShape:
    """What ``spec_of`` spelt."""
    kind, size, hll_type, encoding, values = spec.split(":")
    return SketchShape(SketchKind(kind), int(size), hll_type, encoding, int(values))


def sketch_type(kind: SketchKind) -> SqlType:
    """The type of a sketch's values."""
    return SqlType("OTHER", element=kind.value)


def kind_of_type(type_: SqlType) -> SketchKind | None:
    """What kind of sketch values of a type are; None where they are none."""
    return kind_of(type_.element) if type_.family is Family.COMPLEX else None


def sketch_argument(operand: Term, kind: SketchKind, name: str) -> str:
    """The operand as a sketch of the kind; NULL is one of nothing.

    Raises:
        InvalidQuery: it is something else.
    """
    if operand.is_null:
        return "CAST(NULL AS BLOB)"
    if kind_of_type(operand.type) is not kind:
        raise InvalidQuery(f"{name} needs COMPLEX<{kind.value}>, not {_told(operand.type)}")
    return operand.sql


def _told(type_: SqlType) -> str:
    return type_.druid if type_.family is Family.COMPLEX else type_.name


def shaped(
    kind: SketchKind, name: str, size: int | None = None, hll_type: str = "HLL_4", values: int = 1
) -> SketchShape:
    """The shape of a size, Druid's default one when it is None.

    Raises:
        InvalidQuery: there is no such size.
    """
    chosen = SketchShape.default(kind).size if size is None else size
    try:
        return SketchShape(kind, chosen, hll_type.upper(), values=values if kind is SketchKind.TUPLE else 0)
    except ValueError as error:
        raise InvalidQuery(f"{name}: {error}") from error


def collected(session: Session, shape: SketchShape, operand: Term, suffix: str, name: str) -> str:
    """The aggregate that makes one sketch of an operand's values, or of the sketches that it holds.

    Raises:
        InvalidQuery: it has no values of which such a sketch can be made.
    """
    spec = spec_of(shape)
    if operand.family is Family.COMPLEX:
        found = sketch_argument(operand, shape.kind, name)
        return f"{session.kernel('sketch_of_sketches')}({spec}, list({found}){suffix})"
    kernel, value = _values(shape, operand, name)
    if operand.type.multi or operand.family is Family.ARRAY:
        return f"{session.kernel(kernel)}({spec}, flatten(list({value}){suffix}))"
    if shape.kind not in DISTINCT_KINDS:
        return f"{session.kernel(kernel)}({spec}, list({value}){suffix})"
    # Eight bytes of each different value are held, not the values.
    mark = f"{session.kernel(kernel.replace('sketch_of', 'sketch_marks_of'))}({spec}, {value})"
    return f"{session.kernel('sketch_of_marks')}({spec}, list(DISTINCT {mark}){suffix})"


def _values(shape: SketchShape, operand: Term, name: str) -> tuple[str, str]:
    if shape.kind is SketchKind.TUPLE:
        raise InvalidQuery(f"{name} of {operand.type.name} needs metricColumns: the numbers beside each value")
    if shape.kind is SketchKind.QUANTILES:
        if operand.type.multi or operand.family is Family.ARRAY:
            raise InvalidQuery(f"{name} of {operand.type.name} with several values is not possible")
        return "sketch_of_doubles", cast_to(as_number(operand), DOUBLE).sql
    if operand.type.multi:
        return "sketch_of_texts", operand.sql
    if operand.family is Family.ARRAY:
        return {"BIGINT": "sketch_of_longs", "DOUBLE": "sketch_of_doubles"}.get(
            operand.type.element, "sketch_of_texts"
        ), operand.sql
    if operand.family in (Family.LONG, Family.TIME):
        return "sketch_of_longs", cast_to(operand, BIGINT).sql
    if operand.family is Family.DOUBLE:
        return "sketch_of_doubles", cast_to(operand, DOUBLE).sql
    return "sketch_of_texts", as_string(operand).sql


def collected_pairs(session: Session, shape: SketchShape, key: Term, numbers: list[Term], suffix: str) -> str:
    """The aggregate that makes a tuple sketch of keys with numbers beside them."""
    if key.type.multi:
        raise InvalidQuery("a tuple sketch of a multi-value string is not supported; use MV_TO_ARRAY and UNNEST")
    kind = {Family.LONG: "BIGINT", Family.TIME: "BIGINT", Family.DOUBLE: "DOUBLE"}.get(key.family, "VARCHAR")
    key_sql = as_string(key).sql if kind == "VARCHAR" else cast_to(key, SqlType(kind)).sql
    values = ", ".join(f"v{at} := {cast_to(as_number(one), DOUBLE).sql}" for at, one in enumerate(numbers))
    name = session.kernel(f"sketch_of_pairs_{kind}_{len(numbers)}")
    return f"{name}({spec_of(shape)}, list(struct_pack(k := {key_sql}, v := struct_pack({values}))){suffix})"


def estimated(session: Session, kind: SketchKind, sketch: str) -> str:
    """The sketch's estimate as a double: distinct values, or of quantiles how many there are."""
    return f"{session.kernel('sketch_estimate')}({spec_of(SketchShape.default(kind))}, {sketch})"


def estimated_count(session: Session, kind: SketchKind, sketch: str) -> Term:
    """The estimate as a whole number."""
    return Term(f"CAST(round({estimated(session, kind, sketch)}) AS BIGINT)", BIGINT)


def combined(session: Session, shape: SketchShape, operation: str, sketches: list[str]) -> Term:
    """Union, intersection or difference of sketches."""
    listed = ", ".join(sketches)
    call = f"{session.kernel('sketch_combined')}({spec_of(shape)}, {t.text_sql(operation)}, [{listed}])"
    return Term(call, sketch_type(shape.kind))


def numbers_at(session: Session, kernel: str, sketch: str, points: list[Term]) -> str:
    """A list of doubles: what a quantiles sketch says at points."""
    listed = ", ".join(cast_to(as_number(point), DOUBLE).sql for point in points)
    return f"{session.kernel(kernel)}({sketch}, CAST([{listed}] AS DOUBLE[]))"
