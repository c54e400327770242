"""The rules of a spec's transformSpec: expression transforms and the row filter."""

from __future__ import annotations

from typing import Any

from ingest.spec.edge import TransformEdge
from ingest.spec.model import Transform
from ingest.spec.notes import Notes
from segments.errors import InvalidExpression
from segments.expression.functions import QUERY_ONLY
from segments.expression.parser import parse_expression
from segments.expression.tree import Expression, calls_of
from segments.filter.model import Filter
from segments.filter.parse import parse_filter
from segments.schema import TIME_COLUMN, is_column_name


def read_transforms(
    block: TransformEdge | None, path: str, notes: Notes
) -> tuple[tuple[Transform, ...], Filter | None]:
    """The transforms that have no fault, and the filter if it has none."""
    if block is None:
        return (), None
    transforms: list[Transform] = []
    for at, item in enumerate(block.transforms):
        transform = _transform(item, f"{path}.transforms[{at}]", notes)
        if transform is None:
            continue
        if transform.name in [known.name for known in transforms]:
            notes.problem(f"{path}.transforms[{at}].name", transform.name, "is defined twice", "give it its own name")
        transforms.append(transform)
    if block.filter is None:
        return tuple(transforms), None
    row_filter, problems = parse_filter(block.filter, f"{path}.filter")
    for problem in problems:
        notes.problem(*problem)
    return tuple(transforms), row_filter


def _transform(item: Any, path: str, notes: Notes) -> Transform | None:
    if not isinstance(item, dict):
        notes.problem(path, item, "a transform is a JSON object", "write an object with type, name and expression")
        return None
    for name in sorted(set(item) - {"type", "name", "expression"}):
        notes.warn(f"{path}.{name} is not known and has no effect")
    name, kind, text = item.get("name"), item.get("type"), item.get("expression")
    before = len(notes.problems)
    if kind != "expression":
        notes.refused(f"{path}.type", kind, "this transform", 'use "expression"')
    if not isinstance(name, str) or (name != TIME_COLUMN and not is_column_name(name)):
        notes.problem(f"{path}.name", name, "must be the name of a field", "name the field that it computes")
    tree = None
    if not isinstance(text, str):
        notes.problem(f"{path}.expression", text, "must be an expression as text", "write one, such as upper(name)")
    else:
        tree = read_expression(text, f"{path}.expression", notes)
    if tree is None or len(notes.problems) > before:
        return None
    return Transform(str(name), tree)


def read_expression(text: str, path: str, notes: Notes) -> Expression | None:
    """The expression's tree, or None with its fault noted."""
    try:
        tree = parse_expression(text)
    except InvalidExpression as error:
        notes.problem(path, text[:200], str(error), "correct the expression")
        return None
    for call in calls_of(tree):
        if call.name in QUERY_ONLY:
            what = f"the function {call.name} at ingestion"
            notes.refused(path, text[:200], what, "use it in queries")
            return None
    return tree
