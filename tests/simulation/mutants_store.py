"""Metadata stores with one rule removed each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.metadata import attempt_rules, memory_offsets, memory_publish, memory_state, rules
from ingest.metadata.file_rules import refused
from ingest.offsets import OffsetMap
from ingest.protocol import PublishOutcome, SequenceState
from tests.simulation.mutation import Mutant

Publishing = memory_publish.MemoryPublishing
Offsets = memory_offsets.MemoryOffsets
Base = memory_state.MemoryBase


def no_refusal(*_: Any, **__: Any) -> None:
    return None


def _publish_without_ledger(self: Any, generation: int, request: Any, now_ms: int) -> Any:
    """Does not look whether this range was published before."""
    known = self.state.ledger.pop(request.ref, None)
    try:
        return _publish(self, generation, request, now_ms)
    finally:
        if known is not None and request.ref not in self.state.ledger:
            self.state.ledger[request.ref] = known


_publish = Publishing.publish


def _fence_first(self: Any, generation: int, request: Any, now_ms: int) -> Any:
    """Fencing is judged before the ledger: a retry after a lost reply looks like a zombie."""
    attempt = self.state.attempts.get(request.token)
    if attempt is None or not attempt.state.is_live:
        return refused(PublishOutcome.FENCED, "not live")
    return _publish_without_ledger(self, generation, request, now_ms)


def _no_epochs(request: Any, view: Any) -> Any:
    return _judge_fencing(
        replace(request, epochs=view.record.epochs) if view.record else request,
        replace(view, epochs=view.record.epochs) if view.record else view,
    )


_judge_fencing = rules._judge_fencing


def _void_may_publish(request: Any, view: Any) -> Any:
    record = view.record
    if record is not None and record.state is SequenceState.VOID:
        view = replace(view, record=replace(record, state=SequenceState.SEALED, end=record.end or request.end))
    return _judge_fencing(request, view)


def _no_version(self: Any, datasource: str) -> int:
    """The table's version stays when offsets, epochs or segments move."""
    return int(max(self.state.tables.get(datasource, 0), 1))


def _last_seal_wins(record: Any, ref: Any) -> Any:
    stored = _stored_seal(record, ref)
    return None if stored is not None and stored.state is SequenceState.SEALED else stored


_stored_seal = rules.stored_seal


def _seal_anew(record: Any, end: Any, following: Any, live: bool) -> Any:
    return _seal_sequence(replace(record, state=SequenceState.OPEN, end=None), end, following, live)


_seal_sequence = rules.seal_sequence


def _unassigned(record: Any, end: Any, following: Any, live: bool) -> Any:
    return _seal_sequence(record, end, following, False)


def _reuse_numbers(self: Any, kind: str, name: str) -> int:
    """Groups are numbered by what exists now."""
    if kind != "group":
        return _count(self, kind, name)
    return len({r.ref.group for r in self.state.unpublished.get(name, ())}) + 1


_count = Base._count


def _reset_without_epoch(stored: Any, moves: Any, topic_id: Any, others: Any = None) -> Any:
    moved = _reset_stream(stored, moves, topic_id, others)
    return replace(moved, epochs=stored.epochs)


_reset_stream = rules.reset_stream


def _first_only(first: Any, unpublished: Any) -> Any:
    """Voids what was named, and nothing that depends on it."""
    wanted = set(first)
    return [record for record in unpublished if record.ref in wanted]


def _sweep_all(self: Any, row: Any) -> bool:
    return row.state in ("staged", "superseded", "deleting")


def _sweep_published(self: Any, row: Any) -> bool:
    return row.state in ("superseded", "deleting", "published")


def _start_at_committed(partitions: Any, unpublished: Any, committed: Any) -> Any:
    """A new group starts at the committed offset, whatever ends are saved past it."""
    _acquired_start(partitions, unpublished, committed)
    return OffsetMap((p, committed[p]) for p in partitions)


_acquired_start = rules.acquired_start


def _reported_nothing(attempts: Any, opened: Any) -> Any:
    return OffsetMap()


MUTANTS = [
    Mutant(
        "publish-any-offsets",
        "publish compares the stored offsets",
        "PR-18",
        lambda: [(rules, "_judge_offsets", no_refusal)],
    ),
    Mutant(
        "no-ledger",
        "a repeated publish is ALREADY",
        "PR-18",
        lambda: [(Publishing, "publish", _publish_without_ledger)],
    ),
    Mutant(
        "fence-before-ledger",
        "the ledger is looked up before fencing is judged",
        "PR-18",
        lambda: [(Publishing, "publish", _fence_first)],
    ),
    Mutant("no-epoch-check", "publish compares reset epochs", "PR-24", lambda: [(rules, "_judge_fencing", _no_epochs)]),
    Mutant(
        "void-publishes",
        "a void sequence cannot be published",
        "PR-13",
        lambda: [(rules, "_judge_fencing", _void_may_publish)],
    ),
    Mutant(
        "files-unchecked",
        "publish turns exactly the staged rows",
        "PR-20",
        lambda: [(rules, "judge_files", no_refusal)],
    ),
    Mutant(
        "version-stays",
        "every visible change raises the version",
        "PR-2",
        lambda: [(Base, "_raise_version", _no_version)],
    ),
    Mutant(
        "last-seal-wins",
        "the first saved end stays",
        "CK-2",
        lambda: [(rules, "stored_seal", _last_seal_wins), (rules, "seal_sequence", _seal_anew)],
    ),
    Mutant(
        "assigned-unmarked",
        "a sequence given to attempts is marked assigned",
        "PR-7",
        lambda: [(rules, "seal_sequence", _unassigned)],
    ),
    Mutant(
        "numbers-reused", "group epochs come from a stored counter", "PR-19", lambda: [(Base, "_count", _reuse_numbers)]
    ),
    Mutant(
        "reset-keeps-epoch",
        "a reset raises the epoch",
        "PR-24",
        lambda: [(rules, "reset_stream", _reset_without_epoch)],
    ),
    Mutant("void-alone", "a void takes its dependents along", "PR-13", lambda: [(rules, "dependents", _first_only)]),
    Mutant(
        "sweep-published",
        "only files no row can publish are swept",
        "PR-20",
        lambda: [(Publishing, "_is_swept", _sweep_published)],
    ),
    Mutant(
        "sweep-live", "files of live attempts are not swept", "PR-20", lambda: [(Publishing, "_is_swept", _sweep_all)]
    ),
    Mutant(
        "acquire-at-committed",
        "a group acquires at the last saved end",
        "PR-11",
        lambda: [(rules, "acquired_start", _start_at_committed)],
    ),
    Mutant(
        "generation-unchecked",
        "an old leader writes nothing",
        "PR-23",
        lambda: [(rules, "check_generation", no_refusal)],
    ),
    Mutant(
        "fenced-may-act",
        "a fenced attempt's token is refused",
        "PR-26",
        lambda: [(attempt_rules, "require_live", _anyone)],
    ),
    Mutant(
        "reports-not-kept",
        "reported positions are kept",
        "PR-7",
        lambda: [(attempt_rules, "reported", _reported_nothing)],
    ),
]


def _anyone(attempt: Any) -> Any:
    assert attempt is not None
    return attempt
