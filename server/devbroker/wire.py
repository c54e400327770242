"""Kafka's primitive types, read and written; both encodings, chosen by `flexible`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_I8, _I16, _I32, _I64 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


class Malformed(Exception):
    """The bytes are not a request of Kafka's protocol; the connection that sent them is closed."""


class Reader:
    """Reads one request. Every length is checked against what is left, so that no number allocates memory."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0
        self.flexible = False

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._at

    def _take(self, size: int) -> memoryview:
        if size < 0 or size > self.left:
            raise Malformed(f"{size} bytes wanted, {self.left} left")
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def i8(self) -> int:
        return int(_I8.unpack(self._take(1))[0])

    def i16(self) -> int:
        return int(_I16.unpack(self._take(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self._take(4))[0])

    def i64(self) -> int:
        return int(_I64.unpack(self._take(8))[0])

    def varint(self) -> int:
        """An unsigned variable-length integer of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
        raise Malformed("a variable-length integer has no end")

    def uuid(self) -> bytes:
        return bytes(self._take(16))

    def _length(self, width: Callable[[], int]) -> int:
        return self.varint() - 1 if self.flexible else width()

    def plain_text(self) -> str | None:
        """A string of the old encoding, as in every request header."""
        return self._decoded(self.i16())

    def text_or_none(self) -> str | None:
        return self._decoded(self._length(self.i16))

    def _decoded(self, size: int) -> str | None:
        if size == -1:
            return None
        try:
            return str(self._take(size), "utf-8")
        except UnicodeDecodeError as e:
            raise Malformed("a string is not UTF-8") from e

    def text(self) -> str:
        found = self.text_or_none()
        if found is None:
            raise Malformed("a string is null")
        return found

    def blob(self) -> memoryview | None:
        size = self._length(self.i32)
        return None if size == -1 else self._take(size)

    def array_or_none(self, item: Callable[[], T]) -> list[T] | None:
        size = self._length(self.i32)
        if size == -1:
            return None
        if size < 0 or size > self.left:  # every item has at least one byte
            raise Malformed(f"an array of {size} items in {self.left} bytes")
        return [item() for _ in range(size)]

    def array(self, item: Callable[[], T]) -> list[T]:
        return self.array_or_none(item) or []

    def tags(self) -> None:
        """Skips tagged fields, which only flexible versions have."""
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self._take(self.varint())


class Writer:
    """Writes one answer; the methods return the writer, so that fields read as a list."""

    def __init__(self, flexible: bool = False) -> None:
        self._parts: list[bytes] = []
        self.flexible = flexible

    def done(self) -> bytes:
        """All that was written."""
        return b"".join(self._parts)

    def i8(self, value: int) -> Writer:
        self._parts.append(_I8.pack(value))
        return self

    def i16(self, value: int) -> Writer:
        self._parts.append(_I16.pack(value))
        return self

    def i32(self, value: int) -> Writer:
        self._parts.append(_I32.pack(value))
        return self

    def i64(self, value: int) -> Writer:
        self._parts.append(_I64.pack(value))
        return self

    def varint(self, value: int) -> Writer:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        self._parts.append(bytes(out))
        return self

    def raw(self, value: bytes) -> Writer:
        self._parts.append(value)
        return self

    def _length(self, size: int, width: Callable[[int], Writer]) -> None:
        if self.flexible:
            self.varint(size + 1)
        else:
            width(size)

    def text(self, value: str | None) -> Writer:
        if value is None:
            self._length(-1, self.i16)
            return self
        encoded = value.encode()
        self._length(len(encoded), self.i16)
        return self.raw(encoded)

    def blob(self, value: bytes) -> Writer:
        self._length(len(value), self.i32)
        return self.raw(value)

    def array(self, items: Iterable[T], item: Callable[[T], object]) -> Writer:
        listed = list(items)
        self._length(len(listed), self.i32)
        for each in listed:
            item(each)
        return self

    def tags(self) -> Writer:
        """No tagged fields, where the version has them."""
        return self.varint(0) if self.flexible else self
