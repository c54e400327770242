"""Names the kinds of sketches and how large each is (pure data; does not load the sketch library)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SketchKind(StrEnum):
    """What a sketch answers. The value is Druid's name of the type, as in ``COMPLEX<HLLSketch>``."""

    HLL = "HLLSketch"
    THETA = "thetaSketch"
    QUANTILES = "quantilesDoublesSketch"
    TUPLE = "arrayOfDoublesSketch"


HYPER_UNIQUE = "hyperUnique"
"""Druid's older distinct count; its columns hold an HLL sketch here."""

HLL_TYPES = ("HLL_4", "HLL_6", "HLL_8")
ENCODINGS = ("utf16le", "utf8")


@dataclass(frozen=True, slots=True)
class SketchShape:
    """A kind and its size. ``size`` is log2 of the registers for HLL (4 to 21), the nominal number of entries for
    theta and tuple (a power of two), k for quantiles (a power of two).

    ``hll_type`` and ``encoding`` (how HLL hashes texts, Druid's ``stringEncoding``) count for HLL alone, ``values``
    (numbers beside each key) for tuple alone.
    """

    kind: SketchKind
    size: int
    hll_type: str = "HLL_4"
    encoding: str = "utf16le"
    values: int = 0

    def __post_init__(self) -> None:
        low, high = _SIZES[self.kind]
        power = self.kind is SketchKind.HLL or self.size & (self.size - 1) == 0
        if not low <= self.size <= high or not power:
            of_two = "" if self.kind is SketchKind.HLL else "a power of two "
            raise ValueError(f"the size of a {self.kind} is {of_two}from {low} to {high}, not {self.size}")
        if self.hll_type not in HLL_TYPES or self.encoding not in ENCODINGS:
            raise ValueError(f"{self.hll_type}, {self.encoding}: not one of {', '.join((*HLL_TYPES, *ENCODINGS))}")
        if (self.kind is SketchKind.TUPLE) != (1 <= self.values <= 255):
            raise ValueError(f"a {self.kind} cannot have {self.values} values beside each key")

    @classmethod
    def default(cls, kind: SketchKind) -> SketchShape:
        """Druid's default size."""
        return cls(kind, _DEFAULTS[kind], values=1 if kind is SketchKind.TUPLE else 0)


_SIZES = {
    SketchKind.HLL: (4, 21),
    SketchKind.THETA: (16, 1 << 26),
    SketchKind.QUANTILES: (2, 32_768),
    SketchKind.TUPLE: (16, 1 << 26),
}
_DEFAULTS = {SketchKind.HLL: 12, SketchKind.THETA: 16_384, SketchKind.QUANTILES: 128, SketchKind.TUPLE: 16_384}


def kind_of(complex_type: str) -> SketchKind | None:
    """The kind that a COMPLEX column of this type name holds; None for one that holds no sketch.

    Druid's names of the aggregators (``HLLSketchBuild``, ``HLLSketchMerge``) count as their type's.
    """
    if complex_type in (HYPER_UNIQUE, "HLLSketchBuild", "HLLSketchMerge"):
        return SketchKind.HLL
    return next((kind for kind in SketchKind if kind.value == complex_type), None)
