"""What values of nested data become where their column is told as texts, numbers or arrays (pure text)."""

from query.sql.java_text import java_text


def from_nested(reference: str, target: str) -> str:
    """The value of a JSON text in an engine type: texts without their quotes, numbers as Java spells them, truth as 1
    and 0 in numbers, a single value as a list of one, an object as its JSON; null where the type cannot hold it."""
    if not target.endswith("[]"):
        return _scalar(reference, target)
    element = target.removesuffix("[]")
    listed = f"list_transform(TRY_CAST(CAST({reference} AS JSON) AS JSON[]), lambda e: {_item(element)})"
    return (
        f"CASE WHEN {reference} IS NULL THEN NULL WHEN starts_with({reference}, '[') THEN {listed} "
        f"ELSE [{_scalar(reference, element)}] END"
    )


def _item(element: str) -> str:
    """A member of a JSON list, whose null is a value of its own there."""
    text = "CAST(e AS VARCHAR)"
    return f"CASE WHEN e IS NULL OR {text} = 'null' THEN NULL ELSE {_scalar(text, element)} END"


def _scalar(text: str, target: str) -> str:
    if target == "VARCHAR":
        number = f"regexp_matches({text}, '^-?[0-9]+[.eE]')"
        return (
            f"CASE WHEN starts_with({text}, '\"') THEN json_extract_string({text}, '$') "
            f"WHEN {number} THEN {java_text(f'TRY_CAST({text} AS DOUBLE)')} ELSE {text} END"
        )
    plain = f"CASE WHEN starts_with({text}, '\"') THEN json_extract_string({text}, '$') ELSE {text} END"
    if target == "BIGINT":
        whole = f"CASE WHEN regexp_full_match({plain}, '[+-]?[0-9]+') THEN TRY_CAST({plain} AS BIGINT) END"
        return f"CASE {text} WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE {whole} END"
    if target in ("DOUBLE", "FLOAT"):
        return f"CASE {text} WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE TRY_CAST({plain} AS {target}) END"
    return f"TRY_CAST({text} AS {target})"
