"""Rules for window functions and aggregates OVER a window."""

from __future__ import annotations

from sqlglot import exp

from query.errors import InvalidQuery, UnknownName, UnsupportedQuery
from query.sql import aggregates
from query.sql.casts import cast_to
from query.sql.frame import WINDOW_ONLY, Frame, node
from query.sql.scope import where
from query.sql.term import Term
from query.sql.types import BIGINT, DOUBLE, common_type

_RANKS = {
    "ROW_NUMBER": BIGINT,
    "RANK": BIGINT,
    "DENSE_RANK": BIGINT,
    "PERCENT_RANK": DOUBLE,
    "CUME_DIST": DOUBLE,
}
_VALUES = {"LAG": 3, "LEAD": 3, "FIRST_VALUE": 1, "LAST_VALUE": 1}
WINDOW_ARITIES = dict.fromkeys(_RANKS, (0, 0)) | {name: (1, most) for name, most in _VALUES.items()} | {"NTILE": (1, 1)}
WINDOW_NAMES = tuple(WINDOW_ARITIES)
WINDOW_ONLY.update(WINDOW_NAMES)
_SIDES = {"PRECEDING", "FOLLOWING"}
_WINDOW_PARTS = ("partition_by", "order", "spec")


@node(exp.Window, parts="this partition_by order spec alias over")
def _window(frame: Frame, tree: exp.Expr) -> Term:
    over = f" OVER ({_window_sql(frame, _completed(frame, tree))})"
    called = tree.this
    if isinstance(called, exp.IgnoreNulls | exp.RespectNulls):
        raise UnsupportedQuery("IGNORE NULLS is not supported", where(tree))
    suffix = ""
    if isinstance(called, exp.Filter):
        suffix, called = aggregates.filter_sql(frame, called), called.this
    name = called.name.upper() if isinstance(called, exp.Anonymous) else ""
    if name in WINDOW_NAMES:
        return _function(frame, name, called.expressions, over)
    name, arguments = aggregates.called_aggregate(called)
    return aggregates.build(frame, name, arguments, suffix + over, over=True)


def _function(frame: Frame, name: str, arguments: list[exp.Expr], over: str) -> Term:
    if name in _RANKS:
        _expect(name, arguments, 0, 0)
        return Term(f"{name.lower()}(){over}", _RANKS[name])
    if name == "NTILE":
        _expect(name, arguments, 1, 1)
        return Term(f"ntile({cast_to(frame.term(arguments[0]), BIGINT).sql}){over}", BIGINT)
    _expect(name, arguments, 1, _VALUES[name])
    value = frame.term(arguments[0])
    if len(arguments) > 2:
        # What stands where there is no such row, of the type that holds both.
        other = frame.term(arguments[2])
        kind = common_type(value.type, other.type)
        if kind is None:
            raise InvalidQuery(
                f"{name}: {value.type.name} and its default of type {other.type.name} have no common type"
            )
        value, default = cast_to(value, kind, frame.zone), f", {cast_to(other, kind, frame.zone).sql}"
    else:
        default = ""
    offset = f", {cast_to(frame.term(arguments[1]), BIGINT).sql}" if len(arguments) > 1 else ""
    return Term(f"{name.lower()}({value.sql}{offset}{default}){over}", value.type)


def _expect(name: str, arguments: list[exp.Expr], least: int, most: int) -> None:
    if not least <= len(arguments) <= most:
        raise InvalidQuery(f"{name} takes {least} to {most} arguments, not {len(arguments)}")


def _completed(frame: Frame, tree: exp.Expr) -> exp.Expr:
    """A window with what it takes from the named one that it begins with: ``OVER w``, ``OVER (w ORDER BY x)``."""
    alias = tree.args.get("alias")
    if alias is None:
        return tree
    named = frame.named_windows.get(alias.name)
    if named is None or named is tree:
        raise UnknownName("Window", alias.name, frame.named_windows, where(alias))
    found = _completed(frame, named)
    own = [name for name in _WINDOW_PARTS if tree.args.get(name)]
    repeated = [name for name in own if found.args.get(name)]
    if repeated or "partition_by" in own or (own and found.args.get("spec")):
        told = f"window {alias.name!r} can only be given what it lacks, and must have no frame"
        raise InvalidQuery(told, where(alias))
    # Not a copy: markers of parameters are known by their nodes.
    return exp.Window(**{name: (tree if name in own else found).args.get(name) for name in _WINDOW_PARTS})


def _window_sql(frame: Frame, window: exp.Expr) -> str:
    parts = []
    partition = window.args.get("partition_by") or []
    if partition:
        parts.append(f"PARTITION BY {', '.join(frame.term(key).sql for key in partition)}")
    order = window.args.get("order")
    if order is not None:
        parts.append(f"ORDER BY {', '.join(aggregates.order_sql(frame, one) for one in order.expressions)}")
    spec = window.args.get("spec")
    if spec is not None:
        parts.append(_frame_sql(frame, spec))
    return " ".join(parts)


def _frame_sql(frame: Frame, spec: exp.Expr) -> str:
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        raise UnsupportedQuery("a window frame is ROWS or RANGE, without EXCLUDE", where(spec))
    start = _bound(frame, spec, "start")
    end = _bound(frame, spec, "end") if spec.args.get("end") else "CURRENT ROW"
    return f"{kind} BETWEEN {start} AND {end}"


def _bound(frame: Frame, spec: exp.Expr, name: str) -> str:
    bound, side = spec.args.get(name), str(spec.args.get(f"{name}_side") or "").upper()
    if bound == "CURRENT ROW":
        return "CURRENT ROW"
    if side not in _SIDES:
        raise InvalidQuery(f"the {name} of a window frame is not one", where(spec))
    if bound == "UNBOUNDED":
        return f"UNBOUNDED {side}"
    value = frame.session_term(bound).value if isinstance(bound, exp.Expr) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidQuery("a window frame counts whole rows", where(spec))
    return f"{value} {side}"
