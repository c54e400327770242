"""Decides which jq programs may run over records: those of which no record can make an endless or a huge one (pure).

A task runs programs in its own thread, and every replica must get the same value, so a program cannot be stopped by a
clock. What loops, grows, or reads anything but its input is therefore refused when the spec is posted, and how large an
object may be follows from how often the program may look at each value.
"""

from __future__ import annotations

import re
from typing import Final

LINEAR_BYTES: Final = 1 << 20
SQUARE_BYTES: Final = 1 << 15
"""Bounds of an object's JSON: for programs that look at each value once, and at each pair of values."""
TEXT_MAX: Final = 2_000
ITERATIONS_MAX: Final = 2

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)|(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"""
    r"""|(?P<field>\.[A-Za-z_]\w*)|(?P<name>[$@]?[A-Za-z_]\w*(?:::\w+)*)"""
    r"""|(?P<each>\[\s*\])|(?P<down>\.\.)|(?P<sign>//=|\|=|\+=|-=|\*=|/=|%=|==|!=|<=|>=|//|\?//|.)""",
    re.S | re.X,
)
_WORD_NAMES: Final = "if then elif else end and or not try catch null true false"
_FUNCTION_NAMES: Final = """
    abs add all any arrays ascii ascii_downcase ascii_upcase booleans ceil contains del empty endswith error explode
    fabs first flatten floor from_entries fromdate fromdateiso8601 fromjson getpath gmtime group_by has implode in
    index indices inside isempty isinfinite isnan isnormal isvalid iterables join keys keys_unsorted last leaf_paths
    length log log10 log2 exp ltrimstr map map_values max max_by min min_by mktime nan normals nth nulls numbers
    objects path paths pow reverse rindex round rtrimstr scalars select sort sort_by split sqrt startswith strings
    strftime strptime to_entries toarray tojson todate todateiso8601 tonumber tostring trim ltrim rtrim trunc type
    unique unique_by utf8bytelength values walk with_entries
"""
_WORDS: Final = frozenset(_WORD_NAMES.split())
_FUNCTIONS: Final = frozenset(_FUNCTION_NAMES.split())
_FORMAT_NAMES: Final = "@text @json @html @uri @csv @tsv @sh @base64 @base64d"
_FORMATS: Final = frozenset(_FORMAT_NAMES.split())
_ITERATING: Final = frozenset({"paths", "leaf_paths"})
_PAIRING: Final = frozenset({"contains", "inside", "index", "rindex", "indices", "in"})
_ASSIGNING: Final = frozenset({"=", "|=", "+=", "-=", "*=", "/=", "%=", "//="})
_CURE: Final = "use paths, map, select, add and the like, or a transform's expression"


class UnsafeProgram(ValueError):
    """Why a program is not run."""


def bytes_allowed(program: str) -> int:
    """The longest JSON text of an object that the program is run over.

    Raises:
        UnsafeProgram: it is run over none.
    """
    if len(program) > TEXT_MAX:
        raise UnsafeProgram(f"it has more than {TEXT_MAX} characters")
    tokens = [(m.lastgroup or "sign", m.group()) for m in _TOKEN.finditer(program) if m.lastgroup != "space"]
    iterations, pairs = 0, False
    for at, (kind, text) in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else ("", "")
        before = tokens[at - 1] if at else ("", "")
        if kind == "text":
            _check_text(text)
        elif kind == "name":
            _check_name(text, following)
            iterations += text in _ITERATING
            pairs = pairs or text in _PAIRING
        elif kind == "sign":
            _check_sign(text, before, following)
            pairs = pairs or (text == "-" and following[0] != "number")
        iterations += kind in ("each", "down")
    if iterations > ITERATIONS_MAX:
        raise UnsafeProgram(
            f"it has {iterations} of [], .. and paths, whose product may take for ever; use {ITERATIONS_MAX}; {_CURE}"
        )
    return SQUARE_BYTES if pairs or iterations > 1 else LINEAR_BYTES


def _check_text(text: str) -> None:
    if "\\(" in text:
        raise UnsafeProgram('a text with \\(...) in it is not run; add texts with +, as in .a + "-" + .b')


def _check_name(name: str, following: tuple[str, str]) -> None:
    if following[1] == ":":
        return  # the key of an object
    if name in ("as", "def", "reduce", "foreach", "label", "import", "include") or name.startswith("$"):
        raise UnsafeProgram(f"{name} may loop or multiply, and is not run; {_CURE}")
    if name not in _WORDS and name not in _FUNCTIONS and name not in _FORMATS:
        raise UnsafeProgram(f"{name} is not run: it may loop, grow, or read what is no part of the record; {_CURE}")


def _check_sign(sign: str, before: tuple[str, str], following: tuple[str, str]) -> None:
    if sign in _ASSIGNING:
        raise UnsafeProgram(f"{sign} is not run: an index from a record may make a huge list; {_CURE}")
    if sign == "*" and not any(_is_small(one) for one in (before, following)):
        raise UnsafeProgram("* is run with a number below 1000 beside it: a text times a number may be huge")


def _is_small(token: tuple[str, str]) -> bool:
    return token[0] == "number" and float(token[1]) < 1_000
