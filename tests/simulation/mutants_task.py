"""Tasks with one rule removed each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.protocol import PublishOutcome, PublishReply, SequenceState
from ingest.task import machine_checkpoint, machine_publish, machine_sequences, machine_state, sequence
from ingest.task.machine import IndexTaskMachine
from ingest.task.messages import Command, PublishEnded
from ingest.task.sequence import SequencePhase
from tests.simulation.mutation import Mutant

Sequences = machine_sequences.SequenceRules
Checkpoints = machine_checkpoint.CheckpointRules
Publishing = machine_publish.PublishRules
State = machine_state.TaskState


def nothing(*_: Any, **__: Any) -> list[Command]:
    return []


def _unknown_is_success(machine: Any, event: PublishEnded) -> list[Command]:
    reply = event.reply
    if reply.outcome is PublishOutcome.UNKNOWN:
        reply = PublishReply(PublishOutcome.PUBLISHED, machine.served_version)
    return _publish_ended(machine, replace(event, reply=reply))


def _too_early_is_final(machine: Any, event: PublishEnded) -> list[Command]:
    if event.reply.outcome is PublishOutcome.TOO_EARLY:
        sequence_ = machine.sequences.get(event.number)
        if sequence_ is not None:
            sequence_.phase, sequence_.version = SequencePhase.PUBLISHED, 1
        return []
    return _publish_ended(machine, event)


def _unknown_is_never_asked_again(machine: Any, event: PublishEnded) -> list[Command]:
    return [] if event.reply.outcome is PublishOutcome.UNKNOWN else _publish_ended(machine, event)


_publish_ended = Publishing.on_publish_ended


def _publish_before_complete(self: Any) -> bool:
    return self.record.end is not None


def _failed_and_not_asked(machine: Any, event: Any) -> list[Command]:
    return [c for c in _publish_failed(machine, event) if type(c).__name__ != "AskSequences"]


_publish_failed = Publishing.on_publish_failed


def _next_before_told(machine: Any, record: Any) -> list[Command]:
    """Takes a successor although sequences between it and the last known one are missing."""
    machine.last_number = record.ref.number
    machine.sequences[record.ref.number] = sequence.Sequence(record, record.start, machine.now_ms)
    return []


def _read_all_windows_at_once(self: Any, partition: int) -> bool:
    return False


def _restore_blindly(machine: Any, restored: Any, totals: Any) -> list[Command]:
    """Hydrants of a manifest are taken as they are."""
    for number, position in restored.items():
        held = machine.sequences.get(number)
        if held is not None:
            held.position = held.record.start.with_({p: o for p, o in position.items() if o > held.record.start[p]})
    return []


def _finish_when_published(machine: Any) -> list[Command]:
    """Does not wait for anything it still holds."""
    return machine.finish(True) if machine.released else []


def _never_learns_published(machine: Any) -> list[Command]:
    return []


def _keep_void(machine: Any, number: int) -> list[Command]:
    return []


def _ignore_end(machine: Any, known: Any, record: Any) -> list[Command]:
    if record.state is SequenceState.SEALED and known.position.reached(record.end) and known.position != record.end:
        known.record = replace(record, end=known.position)
        return []
    return _learn_known(machine, known, record)


_learn_known = Sequences._learn_known

MUTANTS = [
    Mutant(
        "told-late-keeps",
        "told an end below its position, a task drops what passes it",
        "PR-9",
        lambda: [(Sequences, "_drop_what_passes", nothing)],
    ),
    Mutant(
        "told-late-moves-end",
        "a task takes the told end, not its own position, for the end",
        "CK-2",
        lambda: [(Sequences, "_learn_known", _ignore_end)],
    ),
    Mutant(
        "pause-for-ever",
        "a pause is a lease that ends by itself",
        "PR-9",
        lambda: [(Checkpoints, "check_lease", nothing)],
    ),
    Mutant(
        "ask-once",
        "a checkpoint is asked for again until an end is told",
        "PR-9",
        lambda: [(Checkpoints, "ask_again", _ask_once)],
    ),
    Mutant(
        "no-gap-question", "a gap in what was told is asked for", "CK-1", lambda: [(Publishing, "_close_gap", nothing)]
    ),
    Mutant(
        "forgotten-not-asked",
        "told to stop short of a saved end, a task asks what became of it",
        "PR-24",
        lambda: [(Publishing, "_ask_if_forgotten", nothing)],
    ),
    Mutant(
        "jump-over-gap",
        "a successor is taken only without a gap",
        "CK-1",
        lambda: [(Sequences, "_learn_new", _next_before_told)],
    ),
    Mutant(
        "publish-early",
        "only a sequence read to its end is published",
        "PB-2",
        lambda: [(sequence.Sequence, "is_complete", property(_publish_before_complete))],
    ),
    Mutant(
        "unknown-is-success",
        "UNKNOWN is not success",
        "PR-18",
        lambda: [(Publishing, "on_publish_ended", _unknown_is_success)],
    ),
    Mutant(
        "unknown-is-final",
        "UNKNOWN is asked again",
        "PR-18",
        lambda: [(Publishing, "on_publish_ended", _unknown_is_never_asked_again)],
    ),
    Mutant(
        "too-early-is-final",
        "TOO_EARLY is asked again",
        "PR-18",
        lambda: [(Publishing, "on_publish_ended", _too_early_is_final)],
    ),
    Mutant(
        "failed-not-asked",
        "after a failed upload a task asks what became of the sequence",
        "PR-18",
        lambda: [(Publishing, "on_publish_failed", _failed_and_not_asked)],
    ),
    Mutant(
        "blind-restore",
        "restored hydrants past a saved end are dropped",
        "PR-9",
        lambda: [(Sequences, "restore", _restore_blindly)],
    ),
    Mutant(
        "finish-early",
        "a task ends only when it holds nothing",
        "PR-6",
        lambda: [(Publishing, "_finish_when_done", _finish_when_published)],
    ),
    Mutant(
        "replica-never-learns",
        "a replica that does not upload learns of the publish",
        "PR-6",
        lambda: [(Publishing, "_learn_outcome", nothing), (Sequences, "skip_published", nothing)],
    ),
    Mutant(
        "lagging-reads-published",
        "a lagging replica skips what another has published",
        "PR-6",
        lambda: [(Sequences, "skip_published", nothing)],
    ),
    Mutant(
        "out-of-turn",
        "records go to the earliest sequence that wants them",
        "TK-1",
        lambda: [(State, "windows", _latest_window)],
    ),
    Mutant(
        "ends-at-its-wish",
        "a limit only asks; the end is agreed",
        "CK-2",
        lambda: [(State, "windows", _windows_while_paused), (State, "is_reading", property(_reads_while_paused))],
    ),
    Mutant(
        "back-pressure-stops-all",
        "under pressure a told end is still read up to",
        "LV-1",
        lambda: [(State, "windows", _nothing_under_pressure)],
    ),
    Mutant(
        "no-ask-under-pressure",
        "full disks end the open sequence",
        "LV-1",
        lambda: [(Checkpoints, "limit_reached", _no_disk_limit)],
    ),
    Mutant(
        "late-seal-ends-pause",
        "a late message of an older round ends no newer pause",
        "CK-4",
        lambda: [(Checkpoints, "_answers_pause", _anything_answers)],
    ),
    Mutant(
        "late-pause-begins-again",
        "a late copy of a pause that is over is refused",
        "CK-4",
        lambda: [(Checkpoints, "hear", nothing)],
    ),
    Mutant(
        "no-ask-before-reading-on",
        "when a lease ends, saved sequences are asked for first",
        "PR-9",
        lambda: [(Checkpoints, "check_lease", _read_on_at_once)],
    ),
    Mutant(
        "end-never-raised",
        "what cannot be read again raises the saved end",
        "PR-9",
        lambda: [(Sequences, "on_reread_impossible", nothing)],
    ),
    Mutant(
        "stays-below-log-start",
        "a replica below the log start withdraws",
        "PR-17",
        lambda: [(IndexTaskMachine, "_on_below_log_start", nothing)],
    ),
    Mutant(
        "everybody-uploads",
        "only the committer uploads",
        "PB-7",
        lambda: [(State, "__setattr__", _always_committer)],
    ),
    Mutant(
        "drops-unacknowledged",
        "published rows are held until every node has acknowledged them",
        "PR-6",
        lambda: [(Publishing, "_drop_acknowledged", _drop_published)],
    ),
    Mutant("keeps-void", "a void sequence is dropped", "PR-13", lambda: [(Sequences, "_give_up_from", _keep_void)]),
]

_ask_again = Checkpoints.ask_again
_windows = State.windows
_is_reading = State.is_reading
_limit_reached = Checkpoints.limit_reached


def _anything_answers(machine: Any, generation: int, round_number: int) -> bool:
    return machine.pause is not None


def _read_on_at_once(machine: Any) -> list[Command]:
    pause = machine.pause
    return machine.read_on() if pause is not None and machine.now_ms >= pause.until_ms else []


def _always_committer(machine: Any, name: str, value: Any) -> None:
    object.__setattr__(machine, name, True if name == "committer" else value)


def _drop_published(machine: Any) -> list[Command]:
    done = [s for s in machine.in_order() if s.phase is SequencePhase.PUBLISHED]
    return [machine._drop(s) for s in done]


def _ask_once(machine: Any) -> list[Command]:
    if machine.ask is not None and machine.ask.tries:
        return []
    return _ask_again(machine)


def _latest_window(machine: Any) -> Any:
    return tuple(reversed(_windows(machine)))


def _windows_while_paused(machine: Any) -> Any:
    return _windows(machine)


def _reads_while_paused(machine: Any) -> bool:
    idle = machine.finished or not machine.started or machine.rewinding
    return not idle and bool(machine.windows())


def _nothing_under_pressure(machine: Any) -> Any:
    return () if machine.under_pressure else _windows(machine)


def _no_disk_limit(machine: Any, held: Any) -> str | None:
    reason = _limit_reached(machine, held)
    return None if reason == "disk" else reason


assert issubclass(IndexTaskMachine, Publishing)
