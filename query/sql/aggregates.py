"""Rules for aggregate functions; distinct counts and quantiles are exact where Druid estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from query.errors import InvalidQuery, UnsupportedQuery
from query.splits import CannotSplit
from query.sql import term as t
from query.sql.casts import as_boolean, as_number, as_string, cast_to
from query.sql.conditions import choose_counted, choose_rows
from query.sql.frame import AGGREGATES, ARITIES, FUNCTIONS, Arguments, Frame, function, node
from query.sql.functions_time import as_time, constant_text
from query.sql.multi_value import is_missing, one_text, only_member
from query.sql.scope import where
from query.sql.term import INTEGER_MAX, Term
from query.sql.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, VARCHAR, Family, array_of
from segments.sketch.shape import SketchKind


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One call of an aggregate. ``rows`` sees its arguments; ``suffix`` is what follows the call: FILTER, OVER."""

    rows: Frame
    name: str
    arguments: list[exp.Expr]
    distinct: bool = False
    order: str = ""
    suffix: str = ""

    def term(self, at: int) -> Term:
        """One argument, translated."""
        return self.rows.term(self.arguments[at])

    def single(self, at: int = 0) -> Term:
        """One argument as one value a row: NULL where there are several."""
        found = self.term(at)
        return only_member(found) if found.type.multi else found

    def constant(self, at: int, default: int) -> int:
        """An argument that is a whole number, if it is given."""
        if len(self.arguments) <= at:
            return default
        value = self.term(at).value
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidQuery(f"argument {at + 1} of {self.name} must be a whole number")
        return value

    def sql(self, duckdb_name: str, *arguments: str, order: str | None = None, kind: str = "") -> str:
        """The call as DuckDB writes it; ``kind`` is how ``query.splits`` merges it, if not by its name."""
        distinct = "DISTINCT " if self.distinct else ""
        ordered = self.order if order is None else order
        called = f"{duckdb_name}({distinct}{', '.join(arguments)}{ordered}){self.suffix}"
        if distinct or ordered:
            _refuse_split(self)
        return self.parted(kind or duckdb_name, called)

    def parted(self, kind: str, called: str) -> str:
        """The call, or where the statement is split what stands for it."""
        splitting = self.rows.session.splitting
        return called if splitting is None else splitting.merged(kind, called)

    def different(self, counted: Term) -> Term:
        """The number of different values."""
        splitting = self.rows.session.splitting
        if splitting is not None:
            return Term(splitting.different(counted.sql, counted.type, self.suffix), BIGINT)
        return Term(f"count(DISTINCT {counted.sql}){self.suffix}", BIGINT)


Builder = Callable[[Aggregation], Term]
BUILDERS: dict[str, Builder] = {}
_COUNTS = (
    "APPROX_COUNT_DISTINCT",
    "APPROX_COUNT_DISTINCT_BUILTIN",
    "APPROX_COUNT_DISTINCT_DS_HLL",
    "APPROX_COUNT_DISTINCT_DS_THETA",
    "APPROX_COUNT_DISTINCT_DS_HLL_UTF8",
)
SPLITTABLE = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "BIT_AND", "BIT_OR", "BIT_XOR", *_COUNTS})
"""What may be the same when it is made of parts; the rules know when it is not."""


def aggregate(*names: str, least: int = 1, most: int | None = None) -> Callable[[Builder], Builder]:
    """Registers aggregates by name."""

    def register(builder: Builder) -> Builder:
        for name in names:
            BUILDERS[name] = builder
            AGGREGATES.add(name)
            FUNCTIONS[name] = _standing_alone(name)
            ARITIES[name] = (least, least if most is None else most)
        return builder

    return register


def _standing_alone(name: str) -> Callable[[Frame, Arguments], Term]:
    def rule(frame: Frame, arguments: Arguments) -> Term:
        return build(frame, name, arguments, "")

    return rule


def build(frame: Frame, name: str, arguments: Arguments, suffix: str, over: bool = False) -> Term:
    """Translates an aggregate call; with ``over`` its arguments are seen where it stands, not below the grouping."""
    if not over and (frame.keys is None or frame.rows is None):
        if frame.clause == "WHERE":
            # Where aggregates of the rows stand, that is seen before.
            raise InvalidQuery(f"aggregates cannot be nested: {name} stands inside another; use a subquery")
        raise InvalidQuery(f"aggregate {name} is not allowed in {frame.clause}")
    rows = frame if over or frame.rows is None else frame.rows
    if frame.session.splitting is not None and name not in SPLITTABLE:
        raise CannotSplit(name)
    distinct, order = False, ""
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct, arguments = True, [*arguments[0].expressions, *arguments[1:]]
    if arguments and isinstance(arguments[-1], exp.Order):
        keys = [ordered for ordered in arguments[-1].expressions if not rows.term(ordered.this).is_constant]
        order = f" ORDER BY {', '.join(order_sql(rows, ordered) for ordered in keys)}" if keys else ""
        arguments = [*arguments[:-1], arguments[-1].this]
    least, most = ARITIES[name]
    if not least <= len(arguments) <= most:
        raise InvalidQuery(f"{name} takes {least} to {most} arguments, not {len(arguments)}")
    choose_counted(rows, [] if over else arguments)
    return BUILDERS[name](Aggregation(rows, name, arguments, distinct, order, suffix))


def order_sql(frame: Frame, ordered: exp.Expr) -> str:
    """One entry of an ORDER BY, with Druid's place for NULLs."""
    direction = "DESC" if ordered.args.get("desc") else "ASC"
    nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
    return f"{frame.term(ordered.this).sql} {direction} NULLS {nulls}"


@node(exp.Filter)
def _filter(frame: Frame, tree: exp.Expr) -> Term:
    name, arguments = called_aggregate(tree.this)
    return build(frame, name, arguments, filter_sql(frame.rows or frame, tree))


def called_aggregate(tree: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """Name and arguments of an aggregate call.

    Raises:
        InvalidQuery: it is something else.
    """
    name = tree.name.upper() if isinstance(tree, exp.Anonymous) else tree.key.upper()
    if name not in BUILDERS or not isinstance(tree, exp.Anonymous):
        raise InvalidQuery(f"{name} is not an aggregate: FILTER and OVER follow one", where(tree))
    return name, tree.expressions


def filter_sql(rows: Frame, tree: exp.Expr) -> str:
    """The FILTER clause of a call."""
    choose_rows(rows, tree.expression.this)
    return f" FILTER (WHERE {as_boolean(rows.term(tree.expression.this)).sql})"


@aggregate("COUNT")
def _count(call: Aggregation) -> Term:
    if isinstance(call.arguments[0], exp.Star):
        if call.distinct:
            raise InvalidQuery("COUNT(DISTINCT *) counts nothing: name a column")
        return Term(call.sql("count", "*"), BIGINT)
    counted = call.term(0)
    if counted.family is Family.COMPLEX and call.distinct:
        return _of_stored(call)
    if not counted.type.multi:
        return call.different(counted) if call.distinct else Term(call.sql("count", counted.sql), BIGINT)
    if counted.family is not Family.STRING:
        counted = only_member(counted)
        return call.different(counted) if call.distinct else Term(call.sql("count", counted.sql), BIGINT)
    if call.distinct:
        return _distinct_members(call, counted)
    return Term(call.sql("count", f"CASE WHEN NOT {is_missing(counted)} THEN 1 END"), BIGINT)


def _distinct_members(call: Aggregation, counted: Term) -> Term:
    _refuse_split(call)
    return Term(f"coalesce(len(list_distinct(flatten(list({counted.sql}){call.suffix}))), 0)", BIGINT)


@aggregate(*_COUNTS, most=3)
def _count_distinct(call: Aggregation) -> Term:
    counted = call.term(0)
    if call.name.endswith("UTF8") and counted.family not in (Family.STRING, Family.NULL):
        raise InvalidQuery(f"{call.name} counts texts, not {counted.type.name}")
    if counted.family is Family.COMPLEX:
        return _of_stored(call)
    if counted.type.multi and counted.family is Family.STRING:
        return _distinct_members(call, counted)
    return call.different(only_member(counted) if counted.type.multi else counted)


def _refuse_split(call: Aggregation) -> None:
    """What is made of parts would not be the same."""
    if call.rows.session.splitting is not None:
        raise CannotSplit(call.name)


def _of_stored(call: Aggregation) -> Term:
    _refuse_split(call)
    from query.sql.aggregates_sketch import count_of_stored

    return count_of_stored(call, _STORED_KINDS.get(call.name))


_STORED_KINDS = {
    "APPROX_COUNT_DISTINCT_DS_HLL": SketchKind.HLL,
    "APPROX_COUNT_DISTINCT_DS_THETA": SketchKind.THETA,
}


@aggregate("SUM")
def _sum(call: Aggregation) -> Term:
    number = as_number(call.single())
    if number.family is Family.LONG:
        return Term(call.sql("sum", number.sql), BIGINT)
    return Term(call.sql("sum", cast_to(number, DOUBLE).sql, kind="total"), DOUBLE)


@aggregate("$SUM0")
def _sum_or_zero(call: Aggregation) -> Term:
    found = _sum(call)
    return t.call("coalesce", found.type, found.sql, "0")


@aggregate("SINGLE_VALUE")
def _single_value(call: Aggregation) -> Term:
    """The value of the only row; the statement fails where there are more."""
    value = call.single()
    more = t.text_sql("SINGLE_VALUE of more than one row")
    sql = f"CASE WHEN count(*){call.suffix} > 1 THEN error({more}) ELSE {call.sql('any_value', value.sql)} END"
    return t.expression(f"CAST({sql} AS {value.type.duckdb})", value.type)


@aggregate("AVG")
def _avg(call: Aggregation) -> Term:
    number = as_number(call.single())
    if number.family is not Family.LONG:
        value = number.sql if number.type != FLOAT else cast_to(number, DOUBLE).sql
        if call.rows.session.splitting is None:
            return Term(call.sql("avg", value), DOUBLE)
        return t.expression(f"{call.sql('sum', value, kind='total')} / nullif({call.sql('count', value)}, 0)", DOUBLE)
    # As Druid divides; the engine's own average of longs has more digits on the way and rounds twice.
    return t.expression(
        f"CAST({call.sql('sum', number.sql)} AS DOUBLE) / nullif({call.sql('count', number.sql)}, 0)", DOUBLE
    )


@aggregate("MIN", "MAX")
def _extreme(call: Aggregation) -> Term:
    given, name = call.term(0), call.name.lower()
    if given.type.multi and given.family is Family.STRING:
        cure = "use UNNEST(MV_TO_ARRAY(...)), or MV_TO_STRING for one text"
        raise UnsupportedQuery(f"{call.name} of a multi-value string is not supported; {cure}")
    value = call.single()
    if value.time_column:
        return Term(f"epoch_ms({call.sql(name, value.time_column)})", value.type)
    if value.family in (Family.ARRAY, Family.COMPLEX):
        raise InvalidQuery(f"{call.name} of {value.type.name} is not supported")
    return Term(call.parted(name, t.extreme_sql(name, value, call.suffix)), value.type)


def _bits(name: str) -> None:
    @aggregate(name)
    def _rule(call: Aggregation) -> Term:
        return Term(call.sql(name.lower(), cast_to(as_number(call.single()), BIGINT).sql), BIGINT)


for _name in ("BIT_AND", "BIT_OR", "BIT_XOR"):
    _bits(_name)


def _spread(names: tuple[str, ...], duckdb_name: str) -> None:
    @aggregate(*names)
    def _rule(call: Aggregation) -> Term:
        return Term(call.sql(duckdb_name, cast_to(as_number(call.single()), DOUBLE).sql), DOUBLE)


_spread(("VAR_POP",), "var_pop")
_spread(("VAR_SAMP", "VARIANCE"), "var_samp")
_spread(("STDDEV_POP",), "stddev_pop")
_spread(("STDDEV_SAMP", "STDDEV"), "stddev_samp")


def _one_value(call: Aggregation) -> Term:
    """The value of a row; of several members their text, as Druid aggregates a multi-value string."""
    value = call.term(0)
    if not value.type.multi or value.family is not Family.STRING:
        return call.single()
    if call.arguments[2:] and call.name == "ANY_VALUE" and call.term(2).value is False:
        return t.call("list_extract", VARCHAR, value.sql, "1")
    return one_text(value)


def _at_time(call: Aggregation, moment: Term, size_at: int) -> Term:
    value = _one_value(call)
    if call.distinct:
        raise InvalidQuery(f"{call.name} takes no DISTINCT")
    name = "arg_min_null" if call.name.startswith("EARLIEST") else "arg_max_null"
    found = Term(call.sql(name, value.sql, moment.time_column or moment.sql), value.type)
    return _cut(call, found, size_at)


def _cut(call: Aggregation, value: Term, size_at: int) -> Term:
    size = min(call.constant(size_at, 0), INTEGER_MAX)
    if size <= 0 or value.family is not Family.STRING:
        return value
    return t.call(call.rows.session.kernel("text_of_bytes"), value.type, value.sql, str(size))


@aggregate("EARLIEST", "LATEST", most=3)
def _by_event_time(call: Aggregation) -> Term:
    moment = call.rows.scope.event_time()
    if moment is None:
        raise InvalidQuery(f"{call.name} needs a __time column; use {call.name}_BY with a time of your own")
    return _at_time(call, moment, 1)


@aggregate("EARLIEST_BY", "LATEST_BY", least=2, most=3)
def _by_given_time(call: Aggregation) -> Term:
    return _at_time(call, as_time(call.term(1), call.rows.zone), 2)


@aggregate("ANY_VALUE", most=3)
def _any_value(call: Aggregation) -> Term:
    value = _one_value(call)
    return _cut(call, Term(call.sql("any_value", value.sql), value.type), 1)


@aggregate("STRING_AGG", "LISTAGG", least=1, most=3)
def _string_agg(call: Aggregation) -> Term:
    if call.term(0).type.multi:
        return _joined_members(call)
    value = as_string(call.single(), call.rows.zone)
    separator = t.text_sql(constant_text(call.term(1), f"the separator of {call.name}")) if call.arguments[1:] else "''"
    # DISTINCT is ordered by the values, as Druid's set happens to be; without it there is no order to keep.
    order = f" ORDER BY {value.sql}" if call.distinct and not value.is_constant else call.order
    return Term(call.sql("string_agg", value.sql, separator, order=order), VARCHAR)


def _joined_members(call: Aggregation) -> Term:
    separator = t.text_sql(constant_text(call.term(1), f"the separator of {call.name}")) if call.arguments[1:] else "''"
    return t.call("array_to_string", VARCHAR, _all_members(call, call.term(0)), separator)


def _all_members(call: Aggregation, value: Term) -> str:
    """The members of all rows in one list; a row without any adds a NULL. Different ones are in order, NULL first."""
    listed = f"CASE WHEN len({value.sql}) > 0 THEN {value.sql} ELSE [NULL] END"
    _refuse_split(call)
    joined = f"flatten(list({listed}{'' if call.distinct else call.order}){call.suffix})"
    if not call.distinct:
        return joined
    missing = f"CASE WHEN len({joined}) > list_count({joined}) THEN [NULL] ELSE [] END"
    return f"list_concat({missing}, list_sort(list_distinct({joined})))"


@aggregate("ARRAY_AGG", most=2)
def _array_agg(call: Aggregation) -> Term:
    value = call.term(0)
    if value.type.multi:
        type_ = array_of(value.type.member)
        return Term(f"CAST({_all_members(call, value)} AS {type_.duckdb})", type_)
    type_ = array_of(value.type)
    value_sql = cast_to(value, BIGINT).sql if value.type == BOOLEAN else value.sql
    value_sql = t.one_zero(value).sql if call.distinct and value.family is Family.DOUBLE else value_sql
    order = f" ORDER BY {value_sql} ASC NULLS FIRST" if call.distinct and not value.is_constant else call.order
    return Term(f"CAST({call.sql('list', value_sql, order=order)} AS {type_.duckdb})", type_)


@aggregate("ARRAY_CONCAT_AGG", most=2)
def _array_concat_agg(call: Aggregation) -> Term:
    value = call.term(0)
    if value.family is not Family.ARRAY:
        raise InvalidQuery("ARRAY_CONCAT_AGG needs arrays")
    if not call.distinct:
        return Term(f"flatten({call.sql('list', value.sql)})", value.type)
    members = f"flatten(list({value.sql}){call.suffix})"
    # DuckDB's distinct members leave NULL out; Druid puts it first.
    missing = f"CASE WHEN len({members}) > list_count({members}) THEN [NULL] ELSE [] END"
    return Term(f"list_concat({missing}, list_sort(list_distinct({members})))", value.type)


@function("GROUPING", most=64)
def _grouping(frame: Frame, arguments: Arguments) -> Term:
    if frame.keys is None:
        raise InvalidQuery("GROUPING needs GROUP BY")
    terms = [frame.term(argument) for argument in arguments]
    if not terms or not all(term in frame.keys.values() for term in terms):
        raise InvalidQuery("GROUPING takes what stands in GROUP BY")
    return t.call("grouping", BIGINT, *(term.sql for term in terms))


AGGREGATES.add("GROUPING")
