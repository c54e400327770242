"""The rules of a spec's inputFormat: JSON with simple flattening; every other format is refused by name."""

from __future__ import annotations

from ingest.spec.edge import FlattenEdge, FlattenFieldEdge, InputFormatEdge
from ingest.spec.json_path import Step, UnsupportedPath, parse_path
from ingest.spec.model import Documents, FlattenField, JsonFormat
from ingest.spec.notes import PLACEHOLDER, Notes
from segments.schema import RESERVED_PREFIX, is_column_name


def read_input_format(block: InputFormatEdge | None, path: str, notes: Notes) -> JsonFormat | None:
    """The format, or None with its faults noted."""
    if block is None:
        notes.problem(path, None, "is required", 'set {"type": "json"}')
        return None
    if block.type != "json":
        notes.refused(f"{path}.type", block.type, "this input format", 'send JSON and use "json"')
        return None
    if block.feature_spec:
        notes.refused(f"{path}.featureSpec", block.feature_spec, "another dialect of JSON", "remove featureSpec")
    if block.keep_null_columns:
        notes.warn(f"{path}.keepNullColumns has no effect: a field that was always null makes no column")
    if block.assume_newline_delimited and block.use_json_node_reader:
        notes.problem(path, True, "assumeNewlineDelimited and useJsonNodeReader exclude each other", "set one of them")
    flatten = block.flatten_spec or FlattenEdge()
    fields: list[FlattenField] = []
    for at, item in enumerate(flatten.fields):
        where = f"{path}.flattenSpec.fields[{at}]"
        field = _field(item, where, notes)
        if field is None:
            continue
        if field.name in [known.name for known in fields]:
            notes.problem(f"{where}.name", field.name, "is defined twice", "give every field its own name")
        fields.append(field)
    return JsonFormat(tuple(fields), flatten.use_field_discovery, _documents(block))


def _documents(block: InputFormatEdge) -> Documents:
    if block.assume_newline_delimited:
        return Documents.LINES
    return Documents.PREFIX if block.use_json_node_reader else Documents.WHOLE


def _field(block: FlattenFieldEdge, path: str, notes: Notes) -> FlattenField | None:
    if block.name == PLACEHOLDER and notes.problems:
        return None
    if block.name is None or not is_column_name(block.name):
        rule = f"is required, holds no NUL character and does not begin with {RESERVED_PREFIX}"
        notes.problem(f"{path}.name", block.name, rule, "name the field")
        return None
    steps: tuple[Step, ...]
    if block.type == "root":
        # As in Druid a root field may carry the source field's name in expr.
        steps = (block.expr or block.name,)
    elif block.type == "tree":
        steps = tuple(block.nodes or ())
        if not steps:
            notes.problem(f"{path}.nodes", block.nodes, "is required", "list the names that lead to the field")
    elif block.type == "path":
        try:
            steps = parse_path(block.expr or "")
        except UnsupportedPath as error:
            cure = "use names, indices and [*], as in $.a.b[0]['c']"
            notes.problem(f"{path}.expr", block.expr, f"this path is not supported: {error}", cure)
            return None
    else:
        notes.refused(f"{path}.type", block.type, "this kind of flattening", "use root, path or tree")
        return None
    return FlattenField(block.name, steps)
