"""Decides which live rows complete a table's published rows at one version (pure: no clock, no I/O).

The committed offset vector of a version alone decides what is live (PR-1): per partition the sequences that
are used must start exactly at the vector and join without gap or overlap, over all groups. A node never
goes backwards (PR-4): it uses a newer version, or another attempt's copy, only when in every partition that
reaches at least as far as what it answered last, unless a raised reset epoch voids that. Until then what it
holds stays the answer. Sequences that must answer are named by the snapshot (PR-7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from query.source import LiveAttempt, RequiredSequence, TableSnapshot
from segments.live import ChunkInfo, LiveAnswer, LiveSequence, LiveStatus

GroupKey = tuple[str, int]
"""(supervisor, group)."""

PartitionKey = tuple[str, int]
"""(supervisor, partition)."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One attempt's live rows of one group, as answered once; ``epochs`` are those it was asked for.

    Only sequences that were live then are kept.
    """

    token: str
    epochs: Mapping[int, int]
    sequences: tuple[LiveSequence, ...]

    def chunks(self) -> Iterator[ChunkInfo]:
        """Every chunk of it."""
        for sequence in self.sequences:
            yield from sequence.chunks


@dataclass(frozen=True, slots=True)
class Reached:
    """How far the rows of one partition reached in an answer: next offset, in one reset epoch."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class View:
    """A complete answer: the segments of ``version`` and these copies hold each row once, up to ``reached``."""

    version: int
    copies: Mapping[GroupKey, Copy] = field(default_factory=dict)
    reached: Mapping[PartitionKey, Reached] = field(default_factory=dict)

    def chunks(self) -> Iterator[tuple[GroupKey, str, ChunkInfo]]:
        """Every chunk with its group and the token that names it (PR-5)."""
        for key, copy in self.copies.items():
            for chunk in copy.chunks():
                yield key, copy.token, chunk


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with this view; it is what the node holds from now on. ``kept`` says for which groups an older
    copy stands in, and why."""

    view: View
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskAlso:
    """Nothing acceptable yet: ask these attempts too, one per group that lacks an answer."""

    attempts: tuple[LiveAttempt, ...]


@dataclass(frozen=True, slots=True)
class KeepHeld:
    """Nobody can take over yet: what the node holds stays the answer, at its version."""

    reason: str


@dataclass(frozen=True, slots=True)
class Newer:
    """A task has moved past this version, or knows partitions it lacks: load a newer one (PR-6)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A required answer is missing and nothing is held: wait, bounded, then fail with this reason."""

    reason: str


Verdict = Answer | AskAlso | KeepHeld | Newer | Missing


@dataclass(frozen=True, slots=True)
class _Candidate:
    copy: Copy
    fault: str = ""


def decide(
    snapshot: TableSnapshot, held: View | None, answers: Mapping[str, LiveAnswer | None], trust_held: bool = True
) -> Verdict:
    """What to do, given every answer so far.

    ``answers`` is by attempt token: None for an attempt that could not be reached or whose chunks could
    not be fetched. ``held`` is the last view that was answered with; with ``trust_held`` it stands in for a
    group that cannot answer however far that group is known to have read (for readers who saw it a moment
    ago), else only when it holds all of that. ``AskAlso`` names only attempts that are not in ``answers``;
    every other verdict is final for these inputs.
    """
    newer = _newer(snapshot, held, answers)
    if newer:
        return Newer(newer)
    chosen: dict[GroupKey, Copy] = {}
    asks: list[LiveAttempt] = []
    faults: list[str] = []
    stand_ins: list[str] = []
    for key in _groups(snapshot, held):
        fresh = _fresh_candidates(snapshot, held, key, answers)
        unasked = _unasked(snapshot, held, key, answers)
        kept = _held_candidate(snapshot, held, key, trust_held)
        candidates = fresh if kept is None else [*fresh, kept]
        if fresh and not fresh[0].fault:
            chosen[key] = fresh[0].copy
        elif unasked:
            asks.append(unasked[0])
        elif kept is not None and not kept.fault:
            chosen[key] = kept.copy
            if fresh or _required(snapshot, key):
                stand_ins.append(_fault(snapshot, key, fresh))
        elif _required(snapshot, key):
            # A group none of whose sequences was ever assigned is empty, whatever its tasks say (PR-7).
            faults.append(_fault(snapshot, key, candidates))
    if asks:
        return AskAlso(tuple(asks))
    may_keep = trust_held or (held is not None and _is_complete(snapshot, held))
    verdict = _conclude(snapshot, held, chosen, faults, may_keep)
    return replace(verdict, kept=tuple(stand_ins)) if isinstance(verdict, Answer) else verdict


def advance(snapshot: TableSnapshot, held: View) -> View | None:
    """What the node holds, moved to the snapshot's version without asking anybody; None if that loses rows."""
    chosen: dict[GroupKey, Copy] = {}
    for key in held.copies:
        candidate = _held_candidate(snapshot, held, key, trust=True)
        if candidate is not None and not candidate.fault:
            chosen[key] = candidate.copy
    verdict = _conclude(snapshot, held, chosen, [])
    return verdict.view if isinstance(verdict, Answer) else None


def vector_of(snapshot: TableSnapshot, supervisor: str) -> tuple[dict[int, int], dict[int, int]]:
    """Committed offsets and reset epochs of a supervisor's partitions, for the question to a task."""
    return dict(snapshot.committed.get(supervisor, {})), dict(snapshot.epochs.get(supervisor, {}))


def _conclude(
    snapshot: TableSnapshot,
    held: View | None,
    chosen: Mapping[GroupKey, Copy],
    faults: Sequence[str],
    may_keep: bool = True,
) -> Verdict:
    problems = list(faults)
    reached = _reached(snapshot, chosen, problems)
    problems.extend(_backwards(held, reached))
    if not problems:
        return Answer(View(snapshot.version, dict(chosen), reached))
    reason = "; ".join(problems)
    return KeepHeld(reason) if held is not None and may_keep else Missing(reason)


def _is_complete(snapshot: TableSnapshot, held: View) -> bool:
    """Whether the view holds all that the snapshot's sequences are known to have read."""
    for required in snapshot.required:
        for partition, start in required.start.items():
            last = held.reached.get((required.supervisor, partition), Reached(required.epochs.get(partition, 0), start))
            read_to = required.end or required.reported
            if last.epoch != required.epochs.get(partition, 0) or last.offset < read_to.get(partition, start):
                return False
    return True


def _groups(snapshot: TableSnapshot, held: View | None) -> list[GroupKey]:
    keys: dict[GroupKey, None] = {(r.supervisor, r.group): None for r in snapshot.required}
    keys |= {(a.supervisor, a.group): None for a in snapshot.attempts}
    if held is not None:
        keys |= dict.fromkeys(held.copies)
    return sorted(keys)


def _required(snapshot: TableSnapshot, key: GroupKey) -> list[RequiredSequence]:
    return [required for required in snapshot.required if (required.supervisor, required.group) == key]


def _newer(snapshot: TableSnapshot, held: View | None, answers: Mapping[str, LiveAnswer | None]) -> str:
    if held is not None and snapshot.version < held.version:
        return f"version {snapshot.version} is older than {held.version}, which was answered before"
    known = {attempt.token: attempt for attempt in snapshot.attempts}
    for token, answer in answers.items():
        if answer is None or token not in known:
            continue
        attempt = known[token]
        where = f"task group {attempt.group} of supervisor {attempt.supervisor}"
        if answer.status is LiveStatus.TOO_OLD:
            return f"{where} has dropped what version {snapshot.version} needs"
        if answer.status is LiveStatus.OK:
            vector = snapshot.committed.get(attempt.supervisor, {})
            unknown = {partition for sequence in answer.sequences for partition in sequence.start} - set(vector)
            if unknown:
                return f"{where} reads partitions {sorted(unknown)}, unknown at version {snapshot.version}"
    return ""


def _unasked(
    snapshot: TableSnapshot, held: View | None, key: GroupKey, answers: Mapping[str, LiveAnswer | None]
) -> list[LiveAttempt]:
    """The group's attempts that were not asked yet: the one mirrored already first, then the committer."""
    token = held.copies[key].token if held is not None and key in held.copies else ""
    attempts = [a for a in snapshot.attempts if (a.supervisor, a.group) == key and a.token not in answers]
    return sorted(attempts, key=lambda attempt: (attempt.token != token, not attempt.committer, attempt.token))


def _fresh_candidates(
    snapshot: TableSnapshot, held: View | None, key: GroupKey, answers: Mapping[str, LiveAnswer | None]
) -> list[_Candidate]:
    """The group's answers, sound ones first, of those the one that reaches furthest."""
    fresh = []
    for attempt in snapshot.attempts:
        answer = answers.get(attempt.token)
        if (attempt.supervisor, attempt.group) == key and answer is not None:
            fresh.append(_fresh_candidate(snapshot, held, key, answer))
    return sorted(fresh, key=lambda candidate: (bool(candidate.fault), -_extent(candidate.copy)))


def _extent(copy: Copy) -> int:
    return sum(offset for sequence in copy.sequences for offset in sequence.position.values())


def _fresh_candidate(snapshot: TableSnapshot, held: View | None, key: GroupKey, answer: LiveAnswer) -> _Candidate:
    vector, epochs = vector_of(snapshot, key[0])
    live = tuple(sequence for sequence in answer.sequences if _is_live(sequence, vector))
    copy = Copy(answer.token, epochs, live)
    if answer.status is not LiveStatus.OK:
        return _Candidate(copy, f"answered {answer.status.value}" + (f" ({answer.detail})" if answer.detail else ""))
    fault = (
        _void_fault(snapshot, key, live)
        or _required_fault(_required(snapshot, key), live)
        or _chain_fault(key[0], vector, live, alone=True)
        or _behind(held, key, copy)
    )
    return _Candidate(copy, fault)


def _held_candidate(snapshot: TableSnapshot, held: View | None, key: GroupKey, trust: bool) -> _Candidate | None:
    """What is held of a group, as far as it is still live; what it lacks was never answered."""
    copy = held.copies.get(key) if held is not None else None
    if copy is None or key[0] not in snapshot.committed:
        return None
    vector, epochs = vector_of(snapshot, key[0])
    live = tuple(sequence for sequence in copy.sequences if _is_live(sequence, vector))
    kept = Copy(copy.token, copy.epochs, live)
    for sequence in live:
        for partition in sequence.start:
            if copy.epochs.get(partition) != epochs.get(partition):
                return _Candidate(kept, f"partition {partition} was reset")
    fault = _chain_fault(key[0], vector, live, alone=True) or _behind(held, key, kept)
    if not trust:
        fault = fault or _required_fault(_required(snapshot, key), live)
    return _Candidate(kept, fault)


def _is_live(sequence: LiveSequence, vector: Mapping[int, int]) -> bool:
    """A publish moves all partitions of a sequence at once, so one start below the vector means published."""
    return all(start >= vector.get(partition, start) for partition, start in sequence.start.items())


def _void_fault(snapshot: TableSnapshot, key: GroupKey, live: Iterable[LiveSequence]) -> str:
    numbers = {required.number for required in _required(snapshot, key)}
    for sequence in live:
        is_empty = sequence.end == sequence.start and not sequence.chunks
        if numbers and sequence.number < max(numbers) and sequence.number not in numbers and not is_empty:
            return f"sequence {sequence.number} is void"
    return ""


def _required_fault(required: Iterable[RequiredSequence], live: Iterable[LiveSequence]) -> str:
    by_number = {sequence.number: sequence for sequence in live}
    for needed in required:
        sequence = by_number.get(needed.number)
        if sequence is None:
            return f"sequence {needed.number} is missing"
        if sequence.start != needed.start:
            return f"sequence {needed.number} starts at {sequence.start}, not at {needed.start}"
        for partition, start in needed.start.items():
            least = needed.end[partition] if needed.end is not None else max(start, needed.reported.get(partition, 0))
            position = sequence.position.get(partition, start)
            if position < least:
                return f"sequence {needed.number} is at offset {position} of partition {partition}, not yet at {least}"
    return ""


def _chain_fault(
    supervisor: str, vector: Mapping[int, int], sequences: Iterable[LiveSequence], alone: bool = False
) -> str:
    """Why the sequences do not continue the vector; "" if they do.

    ``alone``: one group by itself, whose partitions may have come to it from another group's live sequence.
    """
    ranges: dict[int, list[tuple[int, int, int]]] = {}
    for sequence in sequences:
        for partition, start in sequence.start.items():
            end = sequence.position.get(partition, start)
            ranges.setdefault(partition, []).append((start, end, sequence.number))
    for partition, parts in ranges.items():
        # Of ranges that start together the empty ones come first.
        parts.sort()
        at = parts[0][0] if alone else vector.get(partition, parts[0][0])
        for start, end, number in parts:
            if start != at:
                return (
                    f"sequence {number} of supervisor {supervisor} starts at offset {start} of partition {partition}, "
                    f"where {at} is next"
                )
            at = end
    return ""


def _reached(
    snapshot: TableSnapshot, chosen: Mapping[GroupKey, Copy], problems: list[str]
) -> dict[PartitionKey, Reached]:
    """How far the published rows and the chosen copies reach together; adds what does not join to ``problems``."""
    reached: dict[PartitionKey, Reached] = {}
    for supervisor, vector in snapshot.committed.items():
        epochs = snapshot.epochs.get(supervisor, {})
        sequences = [s for key, copy in chosen.items() if key[0] == supervisor for s in copy.sequences]
        fault = _chain_fault(supervisor, vector, sequences)
        if fault:
            problems.append(fault)
        ends = dict(vector)
        for sequence in sequences:
            for partition, position in sequence.position.items():
                ends[partition] = max(position, ends.get(partition, position))
        for partition, end in ends.items():
            reached[(supervisor, partition)] = Reached(epochs.get(partition, 0), end)
    return reached


def _backwards(held: View | None, reached: Mapping[PartitionKey, Reached]) -> Iterator[str]:
    for key, last in held.reached.items() if held is not None else ():
        now = reached.get(key)
        # A supervisor or partition that is gone, and a raised epoch, void what was answered there.
        if now is not None and now.epoch == last.epoch and now.offset < last.offset:
            supervisor, partition = key
            yield (
                f"partition {partition} of supervisor {supervisor} reaches offset {now.offset}, "
                f"less than the {last.offset} answered before"
            )


def _behind(held: View | None, key: GroupKey, copy: Copy) -> str:
    """Where this copy ends before what was answered last, so that another replica is worth asking."""
    ends: dict[int, int] = {}
    for sequence in copy.sequences:
        for partition, position in sequence.position.items():
            is_open = sequence.end is None or position < sequence.end.get(partition, position)
            # Past a sealed sequence the partition may be another group's.
            ends[partition] = position if is_open else 1 << 63
    for partition, end in ends.items():
        last = held.reached.get((key[0], partition)) if held is not None else None
        if last is not None and last.epoch == copy.epochs.get(partition, 0) and end < last.offset:
            return f"partition {partition} is at offset {end}, not yet at {last.offset}, which was answered before"
    return ""


def _fault(snapshot: TableSnapshot, key: GroupKey, candidates: Sequence[_Candidate]) -> str:
    where = f"task group {key[1]} of supervisor {key[0]}"
    if candidates:
        return f"{where}: {'; '.join(dict.fromkeys(candidate.fault for candidate in candidates))}"
    numbers = [required.number for required in _required(snapshot, key)]
    attempts = [a for a in snapshot.attempts if (a.supervisor, a.group) == key]
    how = "none of its tasks can be reached" if attempts else "no task of it is running"
    return f"{where}: {how}, but sequence {', '.join(map(str, numbers))} must answer"
