"""Names how rolled-up metric columns of equal rows merge into one."""

from dataclasses import dataclass
from enum import StrEnum

from segments.schema import RESERVED_PREFIX
from segments.sketch.shape import SketchShape

# A spill keeps, beside a first or last metric, the event time of the value it holds.
TIME_OF_PREFIX = RESERVED_PREFIX


class MergeFunction(StrEnum):
    """How two values of a metric become one; a missing value never changes the other."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"
    ANY = "any"
    SKETCH = "sketch"


@dataclass(frozen=True, slots=True)
class RollupAggregation:
    """One metric column and how it merges; a count merges as SUM.

    FIRST and LAST need the event time of each value: an int64 column ``time_column`` beside the metric in
    every spill, null where no value was seen. Ties: FIRST keeps the value that arrived first, LAST the one
    that arrived last. The time columns end with the spills; segment files hold the value alone.
    ANY keeps the value that arrived first. SKETCH unites sketches of ``sketch``'s kind into one of its size.
    """

    column: str
    function: MergeFunction
    sketch: SketchShape | None = None

    @property
    def time_column(self) -> str | None:
        if self.function in (MergeFunction.FIRST, MergeFunction.LAST):
            return TIME_OF_PREFIX + self.column
        return None
