"""Sort keys of version texts: bytes that compare as Maven compares versions, which is Druid's order ``version``.

A version is a list of numbers and words; a dash, or a change between digits and letters, begins a list within. What is
zero at the end of a list does not count. Words of what is before a release (alpha, beta, milestone, rc, snapshot) come
before it, others after it and before numbers.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from query.kernels.kernel import Kernel

_WORDS = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
_ALIASES = {"ga": "", "final": "", "release": "", "cr": "rc"}
_SHORT = {"a": "alpha", "b": "beta", "m": "milestone"}
_RELEASE = _WORDS.index("")
# First bytes of an item's key, in their order; nothing more stands between words before a release and all others.
_EARLY, _EARLY_LIST, _END, _LATE, _LIST, _NUMBER = range(1, 7)
Item = int | str | list["Item"]


def version_key(text: str) -> bytes:
    """The key of one version."""
    return _list_key(_items(text.lower()))


def _items(text: str) -> list[Item]:
    whole: list[Item] = []
    stack, current = [whole], whole
    start, in_digits = 0, False

    def deeper() -> None:
        nonlocal current
        inner: list[Item] = []
        current.append(inner)
        current = inner
        stack.append(inner)

    for at, sign in enumerate(text):
        if sign in ".-":
            current.append(0 if at == start else _item(in_digits, text[start:at], follows_digit=False))
            start = at + 1
            if sign == "-":
                deeper()
        elif sign.isascii() and sign.isdigit():
            if not in_digits and at > start:
                current.append(_item(False, text[start:at], follows_digit=True))
                start = at
                deeper()
            in_digits = True
        else:
            if in_digits and at > start:
                current.append(_item(True, text[start:at], follows_digit=False))
                start = at
                deeper()
            in_digits = False
    if len(text) > start:
        current.append(_item(in_digits, text[start:], follows_digit=False))
    for one in reversed(stack):
        _normalize(one)
    return whole


def _item(is_number: bool, text: str, follows_digit: bool) -> Item:
    """``follows_digit``: a digit comes after the word, where a single letter is short for one."""
    if is_number:
        return int(text)
    word = _SHORT.get(text, text) if follows_digit else text
    return _ALIASES.get(word, word)


def _normalize(items: list[Item]) -> None:
    """Takes zeros from the end, also those that stand before a list."""
    for at in range(len(items) - 1, -1, -1):
        if items[at] in (0, "", []):
            del items[at]
        elif not isinstance(items[at], list):
            break


def _list_key(items: list[Item]) -> bytes:
    return b"".join(map(_key, items)) + bytes([_END])


def _key(item: Item) -> bytes:
    if isinstance(item, list):
        inner = _list_key(item)
        return bytes([_EARLY_LIST if inner[0] in (_EARLY, _EARLY_LIST) else _LIST]) + inner
    if isinstance(item, int):
        digits = str(item).encode()
        return bytes([_NUMBER]) + len(digits).to_bytes(4, "big") + digits
    if item in _WORDS:
        place = _WORDS.index(item)
        return bytes([_EARLY if place < _RELEASE else _LATE, place])
    # No byte of UTF-8 is 0: where a word ends, it comes before one that goes on.
    return bytes([_LATE, len(_WORDS)]) + item.encode().replace(b"\0", b"\0\1") + b"\0"


def _keys(texts: Any) -> Any:
    flat = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    encoded: Any = flat.dictionary_encode()
    keys = [version_key(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(keys, pa.binary()).take(encoded.indices)


KERNELS = {"text_version_key": Kernel(_keys, ("VARCHAR",), "BLOB")}
