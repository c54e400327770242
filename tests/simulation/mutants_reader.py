"""Query nodes, and what tasks tell them, with one rule removed each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ingest.task import answering
from query import session
from segments.live import LiveStatus
from tests.simulation import query_node, task_process
from tests.simulation.mutation import Mutant
from tests.unit.protocol import test_answering

Node = query_node.QueryNode


def always(*_: Any, **__: Any) -> bool:
    return True


def _no_join(self: Any, snapshot: Any, chosen: Any) -> dict[int, int]:
    cursor = dict(snapshot.stream.committed)
    for answer in chosen:
        for _, position, _ in answer:
            for p, o in position.items():
                cursor[p] = max(cursor[p], o)
    return cursor


def _whatever_is_held(view: Any, ask: Any) -> Any:
    """The task decides what is live: everything it still holds."""
    return LiveStatus.OK, tuple(record.ref.number for record, _, _, _ in view.sequences)


def _never_too_old(view: Any, ask: Any) -> Any:
    return _live_sequences(replace(view, dropped_through=0), ask)


_live_sequences = answering.live_sequences


def _nothing_required(self: Any, group: Any) -> Any:
    return [record for record in group.sequences if record.state.value == "sealed"]


def _stale_segments(self: Any) -> Any:
    """Segments of the last look, offsets of this one."""
    snapshot = _snapshot(self)
    before = getattr(self, "before", None)
    self.before = snapshot
    return snapshot if snapshot is None or before is None else replace(snapshot, paths=before.paths)


_snapshot = Node.snapshot


def _other_groups_unasked(self: Any, snapshot: Any, group: Any) -> Any:
    answer = _best_answer(self, snapshot, group)
    return [] if answer is None else answer


_best_answer = Node.best_answer


def _version_alone(self: Any, view: Any) -> bool:
    """What tasks had not published yet when another node showed it is forgotten."""
    return bool(view.version >= self.version)


def _epochs_alike(now: Any, last: Any) -> bool:
    return now is not None and now.offset < last.offset


def _last_answer_from(self: Any, seen: Any) -> Any:
    """Whatever the node has, of an older version than the session's too."""
    up = not self.is_dead and self.clock.now_ms >= self.down_ms
    return self.answered if up else None


def _newest_segment_forgotten(self: Any, seen: Any) -> Any:
    """It knows the version, and has lost the file that came with it."""
    answered = _question(self, seen)
    paths = [] if answered is None else list(self.world.published_rows)
    gone = frozenset(self.world.published_rows[paths[-1]]) if paths else frozenset()
    return answered if answered is None else replace(answered, rows=answered.rows - gone)


_question = Node.question

MUTANTS = [
    Mutant(
        "never-too-old",
        "a task says TOO_OLD below what it dropped, never less rows",
        "PR-6",
        lambda: [(test_answering, "live_sequences", _never_too_old)],
    ),
    Mutant(
        "task-decides",
        "the vector decides what is live",
        "PR-1",
        lambda: [(task_process, "live_sequences", _whatever_is_held), (Node, "joined", _no_join)],
    ),
    Mutant(
        "no-join",
        "ranges of all groups join at the vector",
        "PR-1",
        lambda: [(Node, "joined", _no_join), (Node, "complete", always)],
    ),
    Mutant(
        "moves-back",
        "a node moves on only when all it answered is reached again",
        "PR-4",
        lambda: [(Node, "may_move", always)],
    ),
    Mutant(
        "nobody-must-answer",
        "every assigned sequence must answer",
        "PR-7",
        lambda: [(Node, "best_answer", _other_groups_unasked)],
    ),
    Mutant(
        "open-may-be-short",
        "the open sequence answers as far as was ever reported",
        "PR-7",
        lambda: [(Node, "complete", always)],
    ),
    Mutant(
        "two-snapshots",
        "version, segments and vector are one snapshot",
        "PR-2",
        lambda: [(Node, "snapshot", _stale_segments)],
    ),
    Mutant(
        "session-unheeded",
        "a node answers no session at an older version than it saw elsewhere",
        "PR-7",
        lambda: [(Node, "question", _last_answer_from)],
    ),
    Mutant(
        "session-version-only",
        "a session's unpublished rows count as seen, as its version does",
        "PR-7",
        lambda: [(session.Seen, "is_reached_by", _version_alone)],
    ),
    Mutant(
        "session-keeps-epochs",
        "what was seen in an epoch that was raised binds no node",
        "PR-7",
        lambda: [(session, "_is_less", _epochs_alike)],
    ),
    Mutant(
        "session-segment-lost",
        "a node shows a session every segment of the version that it answers at",
        "PR-7",
        lambda: [(Node, "question", _newest_segment_forgotten)],
    ),
]
