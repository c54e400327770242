"""Supervisors that judge wrongly what the stream no longer holds, or how far somebody lost had read it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.offsets import OffsetMap
from ingest.supervisor import machine_groups, machine_rounds
from tests.simulation.mutation import Mutant

Groups = machine_groups.GroupRules
Rounds = machine_rounds.RoundRules


def _nothing(*_: Any) -> None:
    return None


def _names_only(machine: Any, seen: Any) -> None:
    """What expired is named and never moved, whatever the spec says."""
    machine.config, config = replace(machine.config, reset_automatically=False), machine.config
    _judge_stream(machine, seen)
    machine.config = config


_judge_stream = Groups._judge_stream


def _moves_all(machine: Any, seen: Any) -> None:
    """An automatic reset moves what it was planned for, wherever that stands by then."""
    _judge_stream(machine, seen)
    for reset in machine.resets:
        reset.forwards = False


def _judge_by_present_readers(machine: Any, seen: Any) -> None:
    """Where unpublished sequences start does not count as held."""
    groups, machine.groups = machine.groups, {}
    _judge_stream(machine, seen)
    machine.groups = groups


def _held_by_any(committed: Any, groups: Any) -> OffsetMap:
    """Whoever has read furthest in a partition counts as holding all of it."""
    known = list(groups)
    starts = [record.start for group in known for record in group.in_order()[:1]]
    read = [replica.read or OffsetMap() for group in known for replica in group.replicas.values()]
    return OffsetMap((p, max([o, *(at.get(p, o) for at in (*starts, *read))])) for p, o in committed.items())


def _only_what_is_published(machine: Any) -> None:
    """Once nobody seemed to hold it, a task that comes back with its rows changes nothing."""
    groups, machine.groups = machine.groups, {}
    _keep_what_is_held(machine)
    machine.groups = groups


_keep_what_is_held = Groups._keep_what_is_held


MUTANTS = [
    Mutant(
        "expired-not-moved",
        "expired offsets are moved when the spec says so",
        "PR-24",
        lambda: [(Groups, "_judge_stream", _names_only)],
    ),
    Mutant(
        "automatic-moves-back",
        "an automatic reset only moves forwards",
        "PR-24",
        lambda: [(Groups, "_judge_stream", _moves_all), (Groups, "_note_committed", _nothing)],
    ),
    Mutant(
        "held-not-counted",
        "what unpublished sequences and readers hold has not expired",
        "PR-17",
        lambda: [(Groups, "_judge_stream", _judge_by_present_readers)],
    ),
    Mutant(
        "held-by-any",
        "who reads on behind a lost range holds nothing of it",
        "PR-17",
        lambda: [(machine_groups, "held_through", _held_by_any)],
    ),
    Mutant(
        "back-in-vain",
        "a task that comes back with its rows ends the automatic reset",
        "PR-17",
        lambda: [(Groups, "_keep_what_is_held", _only_what_is_published)],
    ),
    Mutant(
        "last-moment-lost",
        "what a dead task may have read since its last report is read again before a suspension ends",
        "PR-10",
        lambda: [(Rounds, "note_ended", _nothing)],
    ),
    Mutant(
        "silent-not-heard-out",
        "a suspension does not end over a silent replica before another has read on",
        "PR-10",
        lambda: [(Rounds, "is_heard_out", lambda *_: True)],
    ),
]
