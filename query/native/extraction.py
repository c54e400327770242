"""Extraction functions: from the value of a dimension to another text, as SQL."""

from __future__ import annotations

from collections.abc import Callable

from query.errors import InvalidQuery
from query.native.granularity import parse_granularity
from query.native.matching import found_by, matches
from query.native.request import Part
from query.native.rows import call, small_enough
from query.sql import term as t
from query.sql.casts import as_number, as_string, cast_to
from query.sql.frame import Frame, Session, per_member
from query.sql.functions_lookup import looked_up
from query.sql.scope import Scope
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, TIMESTAMP, VARCHAR, Family

_Rule = Callable[[Session, Part, Term], Term]
_NAMED = {"upper": "UPPER", "lower": "LOWER", "strlen": "STRLEN"}


def extracted(session: Session, part: Part, operand: Term) -> Term:
    """What an extraction function makes of a term; each member of a multi-value string by itself.

    Raises:
        QueryError: there is no such function, or it is not built.
    """
    kind = part.type
    if kind in ("javascript", "inFiltered"):
        raise part.unsupported("the extraction function")
    if kind == "cascade":
        for inner in part.parts("extractionFns"):
            operand = extracted(session, inner, operand)
        return operand
    if kind == "identity":
        return operand
    rule = _RULES.get(kind)
    if rule is None:
        raise part.unknown_type("extraction function")
    frame = Frame(session, Scope(), clause="an extraction function")
    return small_enough(per_member(frame, [operand], lambda _, terms: rule(session, part, terms[0])))


def _called(session: Session, part: Part, operand: Term) -> Term:
    return as_string(call(session, _NAMED[part.type], as_string(operand)))


def _time_format(session: Session, part: Part, operand: Term) -> Term:
    moment = as_number(operand) if operand.family is not Family.STRING else call(session, "TIME_PARSE", operand)
    moment = Term(cast_to(moment, BIGINT).sql, TIMESTAMP)
    zone = part.text_or("UTC", "timeZone")
    if part.has("granularity"):
        granularity = parse_granularity(part.get("granularity"), part.at("granularity"))
        if not granularity.is_all:
            moment = Term(granularity.floor_sql(moment.sql), TIMESTAMP)
    if part.text_or("en", "locale")[:2].lower() != "en":
        raise InvalidQuery(f"{part.at('locale')}: names of days and months are known in English only")
    if part.flag("asMillis") and not part.has("format"):
        return Term(f"CAST({moment.sql} AS VARCHAR)", VARCHAR)
    if part.has("format"):
        return call(session, "TIME_FORMAT", moment, t.text(part.text("format")), t.text(zone))
    text = call(session, "TIME_FORMAT", moment, t.text("yyyy-MM-dd'T'HH:mm:ss.SSSZZ"), t.text(zone))
    return t.expression(f"regexp_replace({text.sql}, '[+]00:00$', 'Z')", VARCHAR)


def _time(session: Session, part: Part, operand: Term) -> Term:
    """A text by one pattern as a text by another; what the first does not read stays as it is."""
    text = as_string(operand)
    moment = call(session, "TIME_PARSE", text, t.text(part.text("timeFormat")))
    spelled = call(session, "TIME_FORMAT", Term(moment.sql, TIMESTAMP), t.text(part.text("resultFormat")))
    return t.expression(f"coalesce({spelled.sql}, {text.sql})", VARCHAR)


def _regex(session: Session, part: Part, operand: Term) -> Term:
    text, pattern = as_string(operand), part.text("expr")
    index = part.whole("index", 1) or 0
    group = call(session, "REGEXP_EXTRACT", text, t.text(pattern), t.long(index))
    other = _constant(part, "replaceMissingValueWith") if part.flag("replaceMissingValue") else text.sql
    test = found_by(session, text, pattern)
    return t.expression(f"CASE WHEN coalesce({test}, FALSE) THEN {group.sql} ELSE {other} END", VARCHAR)


def _constant(part: Part, name: str) -> str:
    return t.text_sql(part.text(name)) if part.has(name) else "CAST(NULL AS VARCHAR)"


def _partial(session: Session, part: Part, operand: Term) -> Term:
    text = as_string(operand)
    return t.expression(f"CASE WHEN {found_by(session, text, part.text('expr'))} THEN {text.sql} END", VARCHAR)


def _search(session: Session, part: Part, operand: Term) -> Term:
    text = as_string(operand)
    return t.expression(f"CASE WHEN {matches(session, text, part.part('query'))} THEN {text.sql} END", VARCHAR)


def _substring(session: Session, part: Part, operand: Term) -> Term:
    text, index, length = as_string(operand).sql, part.whole("index", 0), part.whole("length", -1)
    size = f", {length}" if length is not None and length >= 0 else ""
    cut = f"substring({text}, {(index or 0) + 1}{size})"
    return t.expression(f"CASE WHEN length({text}) > {index} THEN {cut} END", VARCHAR)


def _bucket(session: Session, part: Part, operand: Term) -> Term:
    """The start of a number's bucket, as text; what is no number has none."""
    size, offset = part.number("size", 1.0), part.number("offset", 0.0)
    if size <= 0:
        raise InvalidQuery(f"{part.at('size')}: must be above 0")
    number = cast_to(operand, DOUBLE).sql
    start = f"(floor(({number} - {offset!r}) / {size!r}) * {size!r} + {offset!r})"
    spelled = f"CAST(CAST({start} AS BIGINT) AS VARCHAR)" if size % 1 == 0 and offset % 1 == 0 else _text(start)
    return t.expression(spelled, VARCHAR)


def _text(number: str) -> str:
    whole = f"CAST(CAST({number} AS BIGINT) AS VARCHAR)"
    return f"CASE WHEN {number} = trunc({number}) THEN {whole} ELSE CAST({number} AS VARCHAR) END"


def _string_format(session: Session, part: Part, operand: Term) -> Term:
    text = as_string(operand)
    handling = part.text_or("nullString", "nullHandling")
    spelled = call(session, "STRING_FORMAT", t.text(part.text("format")), text).sql
    if handling == "emptyString":
        spelled = call(
            session,
            "STRING_FORMAT",
            t.text(part.text("format")),
            t.expression(f"coalesce({text.sql}, '')", VARCHAR),
        ).sql
    if handling == "returnNull":
        spelled = f"CASE WHEN {text.sql} IS NOT NULL THEN {spelled} END"
    return t.expression(spelled, VARCHAR)


def _lookup(session: Session, part: Part, operand: Term) -> Term:
    """A lookup that travels with the query; a registered one has another type."""
    lookup = part.part("lookup")
    if lookup.type != "map":
        raise lookup.unsupported("the lookup")
    pairs = lookup.part("map").value
    text = as_string(operand).sql
    other = _missing(part, text)
    if not pairs:
        return t.expression(other, VARCHAR)
    keys = ", ".join(t.text_sql(key) for key in pairs)
    values = ", ".join(t.text_sql(str(value)) for value in pairs.values())
    at = f"list_position([{keys}], {text})"
    return t.expression(f"CASE WHEN {at} > 0 THEN list_extract([{values}], {at}) ELSE {other} END", VARCHAR)


def _missing(part: Part, text: str) -> str:
    """What stands for a value that a lookup has not."""
    if part.has("replaceMissingValueWith") and part.flag("retainMissingValue"):
        raise InvalidQuery(f"{part.path}: retainMissingValue and replaceMissingValueWith exclude each other")
    return text if part.flag("retainMissingValue") else _constant(part, "replaceMissingValueWith")


def registered_lookup(session: Session, part: Part, operand: Term, name: str) -> Term:
    """What a lookup of the cluster makes of a term, with what ``part`` says of missing values.

    Raises:
        QueryError: there is no such lookup.
    """
    frame = Frame(session, Scope(), clause="a lookup")

    def value(_: Frame, terms: list[Term]) -> Term:
        text = as_string(terms[0])
        return t.call("coalesce", VARCHAR, looked_up(session, text, name).sql, _missing(part, text.sql))

    return small_enough(per_member(frame, [operand], value))


def _registered(session: Session, part: Part, operand: Term) -> Term:
    return registered_lookup(session, part, operand, part.text("lookup"))


_RULES: dict[str, _Rule] = {
    "upper": _called,
    "lower": _called,
    "strlen": _called,
    "timeFormat": _time_format,
    "time": _time,
    "regex": _regex,
    "partial": _partial,
    "searchQuery": _search,
    "substring": _substring,
    "bucket": _bucket,
    "stringFormat": _string_format,
    "lookup": _lookup,
    "registeredLookup": _registered,
}
