"""What posting a spec would change: fields, from which offsets, and what the stream's last records would become.

Nothing is kept and nothing is changed. Both specs read the same records by the row path of tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.errors import StreamError
from ingest.metadata.records import GroupState
from ingest.offsets import OffsetMap, furthest
from ingest.spec import SupervisorSpec
from ingest.spec.model import rows_differ
from ingest.stream.schemas import SchemaSources
from ingest.stream.supplier import Poll
from segments.civil import format_iso_ms
from segments.rollup import TIME_OF_PREFIX
from segments.schema import TIME_COLUMN

SHOWN_CHARS: Final = 300
FATES: Final = {fate: fate.name.lower() for fate in Fate}
_ROWS: Final = (
    "dataSchema",
    "ioConfig.inputFormat",
    "ioConfig.topic",
    "ioConfig.headerBasedFilterConfig",
    "ioConfig.lateMessageRejection",
    "ioConfig.earlyMessageRejection",
    "tuningConfig.onBadValue",
)
_TASKS: Final = ("ioConfig.taskCount", "ioConfig.replicas", "ioConfig.autoScalerConfig", "ioConfig.taskDuration")
_CLIENT: Final = ("ioConfig.consumerProperties",)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is another, new or gone; ``place`` leads to it. ``concerns``: rows, tasks, client or limits."""

    place: tuple[str | int, ...]
    concerns: str
    kind: str  # changed | added | removed


def differences(old: Any, new: Any, place: tuple[str | int, ...] = ()) -> Iterator[Difference]:
    """Field by field, in the order of the new document and then what is gone (pure). Lists of one length are compared
    item by item, others are one field."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*new, *(name for name in old if name not in new)]:
            here = (*place, str(name))
            if name not in old:
                yield Difference(here, _concern(here), "added")
            elif name not in new:
                yield Difference(here, _concern(here), "removed")
            else:
                yield from differences(old[name], new[name], here)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, (*place, at))
    elif old != new or type(old) is not type(new):
        yield Difference(place, _concern(place), "changed")


def _concern(place: Sequence[str | int]) -> str:
    path = ".".join(str(part) for part in (place[1:] if place[:1] == ("spec",) else place))
    for what, prefixes in (("rows", _ROWS), ("tasks", _TASKS), ("client", _CLIENT)):
        # A block that comes or goes as a whole concerns what is in it.
        if any(path.startswith(prefix) or prefix.startswith(path) for prefix in prefixes):
            return what
    return "limits"


def json_path(place: Sequence[str | int]) -> str:
    """``$.spec.ioConfig.taskCount``."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)


def how_it_changes(old: SupervisorSpec | None, new: SupervisorSpec) -> str:
    """One sentence for people (pure)."""
    if old is None:
        return "a new supervisor begins to read"
    if rows_differ(old, new):
        return (
            "the open sequences end at a checkpoint as soon as the spec is posted: records before it become rows by "
            "the present spec, records from it on by the new one; nothing is read twice and tasks read on"
        )
    layout = (old.io.task_count, old.io.replicas) != (new.io.task_count, new.io.replicas)
    if layout:
        return "no row becomes another; groups whose partitions change hand them over at a checkpoint, others read on"
    return "no row becomes another and no task stops"


def positions(groups: Sequence[GroupState], committed: OffsetMap) -> OffsetMap:
    """How far each partition was read, as far as is known: where a cut would lie, or later (pure)."""
    found = committed
    for group in groups:
        for sequence in group.sequences:
            found = found.with_(furthest(found.restrict(sequence.start), sequence.start))
        found = found.with_(furthest(found.restrict(group.reported), group.reported))
    return found


@dataclass(frozen=True, slots=True)
class Patience:
    """``wait`` is told why a schema registry cannot be asked now; raises when it has waited long enough."""

    schemas: SchemaSources | None
    wait: Callable[[StreamError], None]


def dry_run(
    old: SupervisorSpec | None, new: SupervisorSpec, polls: Sequence[Poll], now_ms: int, patience: Patience, shown: int
) -> dict[str, Any]:
    """What the records become by each spec: counts by fate, moves between fates, the first ``shown`` rows and rejects
    of the new one. ``now_ms``: the time from which rejection periods count.

    Raises:
        StreamError: what the records are read by cannot be had.
    """
    planned = _decoded(new, polls, now_ms, patience)
    present = None if old is None else _decoded(old, polls, now_ms, patience)
    told: dict[str, Any] = {
        "records": planned.messages,
        "planned": _counted(planned),
        "present": None if present is None else _counted(present),
        "moves": [] if present is None else _moves(present, planned),
        "columns": [{"name": c.name, "type": c.told_type} for c in planned.schema.columns if _is_shown(c.name)],
        "rows": _rows(planned, shown),
        "rejects": _rejects(planned, shown),
    }
    return told


def _decoded(spec: SupervisorSpec, polls: Sequence[Poll], now_ms: int, patience: Patience) -> DecodedBatch:
    decoder = RowDecoder(spec.data_schema, spec.io.rejection, schemas=patience.schemas)
    while True:
        try:
            return decoder.decode(polls, now_ms)
        except StreamError as error:
            patience.wait(error)


def _counted(batch: DecodedBatch) -> dict[str, int]:
    tally = Counter(batch.fates.tolist())
    return {"rows": batch.rows.num_rows} | {name: tally[int(fate)] for fate, name in FATES.items() if tally[int(fate)]}


def _moves(present: DecodedBatch, planned: DecodedBatch) -> list[dict[str, Any]]:
    """Records that end otherwise than by the present spec, most first."""
    pairs = Counter(zip(present.fates.tolist(), planned.fates.tolist(), strict=True))
    return [
        {"records": count, "from": FATES[Fate(old)], "to": FATES[Fate(new)]}
        for (old, new), count in pairs.most_common()
        if old != new
    ]


def _is_shown(name: str) -> bool:
    return not name.startswith(TIME_OF_PREFIX)


def _rows(batch: DecodedBatch, shown: int) -> list[dict[str, Any]]:
    rows = batch.rows.slice(0, shown).to_pylist()
    return [{name: _cell(name, value) for name, value in row.items() if _is_shown(name)} for row in rows]


def _cell(name: str, value: Any) -> Any:
    if name == TIME_COLUMN and isinstance(value, int):
        return format_iso_ms(value)
    if isinstance(value, bytes):
        return f"a sketch of {len(value)} bytes"
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _rejects(batch: DecodedBatch, shown: int) -> list[dict[str, Any]]:
    """Records that are bad as a whole or in a field, those first that would be kept in the quarantine."""
    worst = sorted(batch.problems, key=lambda problem: not problem.unparseable)
    return [
        {
            "partition": problem.partition,
            "offset": problem.offset,
            "fate": "unparseable" if problem.unparseable else "partly",
            "reason": "; ".join(problem.details),
            "input": problem.input[:SHOWN_CHARS],
        }
        for problem in worst[:shown]
    ]


def loses(sample: dict[str, Any]) -> int:
    """How many of the sampled records would no longer become rows as they do now (pure)."""
    kept = ("good", "partly")
    return sum(int(m["records"]) for m in sample["moves"] if m["from"] in kept and m["to"] == "unparseable")
