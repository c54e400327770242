"""Functions of lists. A single value counts as a list of one; a missing list makes the result null."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from segments.expression.operators import equal
from segments.expression.values import (
    ExpressionFailed,
    Function,
    Value,
    bounded,
    common_kind,
    double_of,
    list_of,
    long_of,
    small,
    text_of,
    truth_of,
)

_MEMBERS_MOST: Final = 100_000


def _on_list(function: Callable[..., Value]) -> Function:
    """Null where the first argument is; it comes as a list."""

    def apply(a: Sequence[Value]) -> Value:
        members = list_of(a[0])
        return None if members is None else function(members, *a[1:])

    return apply


def _same(left: Value, right: Value) -> bool:
    return (left is None and right is None) or equal(left, right) == 1


def _holds(members: Sequence[Value], value: Value) -> bool:
    return any(_same(member, value) for member in members)


def _place(members: Sequence[Value], value: Value) -> int | None:
    return next((at for at, member in enumerate(members) if _same(member, value)), None)


def _offset(members: list[Value], index: Value) -> Value:
    at = small(index, "the position")
    return members[at] if 0 <= at < len(members) else None


def _ordinal_of(members: list[Value], value: Value) -> Value:
    at = _place(members, value)
    return None if at is None else at + 1


def _quantile(members: list[Value], rank: Value) -> Value:
    """Between two numbers where it must be; nulls do not count."""
    share = double_of(rank)
    numbers = sorted(one for one in members if isinstance(one, int | float))
    if not numbers or share is None or not 0 <= share <= 1:
        return None
    at = share * (len(numbers) - 1)
    low = numbers[int(at)]
    return float(low + (at - int(at)) * (numbers[min(int(at) + 1, len(numbers) - 1)] - low))


def _contains(members: list[Value], other: Value) -> Value:
    if isinstance(other, list):
        return int(all(_holds(members, value) for value in other))
    return int(_holds(members, other))


def _overlap(members: list[Value], other: Value) -> Value:
    values = list_of(other)
    return None if values is None else int(any(_holds(members, value) for value in values))


def _slice(members: list[Value], start: Value, end: Value = None) -> Value:
    first = small(start, "the start")
    last = len(members) if end is None else small(end, "the end")
    if not 0 <= first <= len(members) or last < first:
        return None
    # As in Java what lies past the end is null.
    if last - first > _MEMBERS_MOST:
        raise ExpressionFailed(f"a list of more than {_MEMBERS_MOST} values")
    return members[first:last] + [None] * (last - max(first, len(members)) if last > len(members) else 0)


def _concat(members: list[Value], other: Value) -> Value:
    values = list_of(other)
    return members if values is None else [*members, *values]


def _set(values: Sequence[Value]) -> list[Value]:
    kind = common_kind(values)
    distinct = {text_of(value) if kind is str else value for value in values}
    return sorted(distinct, key=lambda value: (value is not None, value if value is not None else 0))


def _set_add_all(a: Sequence[Value]) -> Value:
    one, other = list_of(a[0]), list_of(a[1])
    return _set([*(one or []), *(other or [])]) if one is not None or other is not None else None


def _to_string(members: list[Value], separator: Value) -> Value:
    between = text_of(separator)
    if between is None:
        return None
    return bounded(between.join("null" if member is None else text_of(member) or "" for member in members))


def _split(a: Sequence[Value]) -> Value:
    text, separator = text_of(a[0]), text_of(a[1])
    if text is None:
        return None
    if not separator:
        return list(text)
    try:
        parts = re.split(separator, text)
    except re.error as error:
        raise ExpressionFailed(f"{separator[:100]!r} is no regular expression: {error}") from error
    # As in Java empty texts at the end are left out.
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _prepend(a: Sequence[Value]) -> Value:
    members = list_of(a[1])
    return [a[0]] if members is None else [a[0], *members]


def _filtered(keep: bool) -> Function:
    def apply(a: Sequence[Value]) -> Value:
        members, wanted = list_of(a[0]), list_of(a[1])
        if members is None or wanted is None:
            return members
        return [member for member in members if _holds(wanted, member) is keep]

    return apply


def _in_list(a: Sequence[Value]) -> Value:
    members = list_of(a[1])
    if a[0] is None or members is None:
        return 1 if members and None in members and a[0] is None else None
    if any(equal(a[0], member) == 1 for member in members):
        return 1
    return None if None in members else 0


FUNCTIONS: Final[dict[str, Function]] = {
    "array": lambda a: list(a),
    "array_length": _on_list(len),
    "array_offset": _on_list(_offset),
    "array_ordinal": _on_list(lambda members, index: _offset(members, (long_of(index) or 0) - 1)),
    "array_contains": _on_list(_contains),
    "array_quantile": _on_list(_quantile),
    "array_overlap": _on_list(_overlap),
    "array_offset_of": _on_list(_place),
    "array_ordinal_of": _on_list(_ordinal_of),
    "array_append": lambda a: [*(list_of(a[0]) or []), a[1]],
    "array_prepend": _prepend,
    "array_concat": lambda a: _concat(list_of(a[0]) or [], a[1]) if a[0] is not None or a[1] is not None else None,
    "array_set_add": lambda a: _set([*(list_of(a[0]) or []), a[1]]),
    "array_set_add_all": _set_add_all,
    "array_slice": _on_list(_slice),
    "array_to_string": _on_list(_to_string),
    "string_to_array": _split,
    "array_to_mv": lambda a: None if a[0] is None else [text_of(member) for member in list_of(a[0]) or []],
    "mv_to_array": lambda a: None if a[0] is None else [text_of(member) for member in list_of(a[0]) or []],
    "mv_harmonize_nulls": lambda a: [None] if a[0] is None or a[0] == [] else a[0],
    "mv_filter_only": _filtered(keep=True),
    "mv_filter_none": _filtered(keep=False),
    "scalar_in_array": _in_list,
}


def _map(apply: Callable[..., Value], parameters: int, a: list[Value]) -> Value:
    members = list_of(a[0])
    return None if members is None else [apply(member) for member in members]


def _filter(apply: Callable[..., Value], parameters: int, a: list[Value]) -> Value:
    members = list_of(a[0])
    return None if members is None else [member for member in members if truth_of(apply(member))]


def _small(value: Value) -> Value:
    """The value, as long as a fold has not made it too long."""
    if isinstance(value, str):
        return bounded(value)
    if isinstance(value, list) and len(value) > _MEMBERS_MOST:
        raise ExpressionFailed(f"a list of more than {_MEMBERS_MOST} values")
    return value


def _fold(apply: Callable[..., Value], parameters: int, a: list[Value]) -> Value:
    members, folded = list_of(a[0]), a[1]
    if members is None:
        return None
    for member in members:
        folded = _small(apply(member, folded))
    return folded


def _any(apply: Callable[..., Value], parameters: int, a: list[Value]) -> Value:
    members = list_of(a[0])
    return None if members is None else int(any(truth_of(apply(member)) for member in members))


def _all(apply: Callable[..., Value], parameters: int, a: list[Value]) -> Value:
    members = list_of(a[0])
    return None if members is None else int(all(truth_of(apply(member)) for member in members))


def _combinations(lists: Sequence[Value]) -> Any:
    found = [list_of(value) for value in lists]
    if None in found:
        return None
    size = 1
    for members in found:
        size *= len(members or [])
    if size > _MEMBERS_MOST:
        raise ExpressionFailed(f"a list of more than {_MEMBERS_MOST} values")
    return itertools.product(*(members or [] for members in found))


def _cartesian_map(apply: Callable[..., Value], parameters: int, a: list[Value]) -> Value:
    combined = _combinations(a)
    return None if combined is None else [apply(*values) for values in combined]


def _cartesian_fold(apply: Callable[..., Value], parameters: int, a: list[Value]) -> Value:
    combined, folded = _combinations(a[:-1]), a[-1]
    if combined is None:
        return None
    for values in combined:
        folded = _small(apply(*values, folded))
    return folded


LAMBDAS: Final[dict[str, Callable[[Callable[..., Value], int, list[Value]], Value]]] = {
    "map": _map,
    "filter": _filter,
    "fold": _fold,
    "any": _any,
    "all": _all,
    "cartesian_map": _cartesian_map,
    "cartesian_fold": _cartesian_fold,
}
