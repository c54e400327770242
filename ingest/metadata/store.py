"""The metadata store port: one method, one transaction, durable when it returns.

Promises of every implementation (memory, SQLite, PostgreSQL; one contract suite):

* **Atomic.** A method's effects are all visible or none are.
* **Fenced.** Methods that take ``generation`` (the calling overlord's) hold a share lock on the
  leadership row until they commit and raise ``LeadershipLost`` when another generation leads, having
  written nothing (PR-23). Methods that act for a ``token`` raise ``AttemptRefused`` for an ended or
  fenced attempt. Lock order: leadership, stream (offsets, sequences), attempt, table version.
* **Idempotent.** A repeated call answers as the first one did.
* **Versioned.** Whatever changes visibility, a committed offset, a reset epoch, the set of
  partitions or voids a sequence raises the table's version as its last lock (PR-2).
* **Never reused.** Group epochs, sequence numbers, spec versions, partition numbers and table
  versions come from counters that survive deletion (PR-19).

Errors: ``StoreUnreachable`` (with whether the effect is known absent), ``LeadershipLost``,
``AttemptRefused``, ``StoreConflict`` for a caller whose view is outdated (re-read and decide anew).
Thread-safe. Times are given by the caller, in milliseconds UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ingest.errors import IngestError
from ingest.metadata.lookup_store import LookupStore
from ingest.metadata.place_store import PlaceStore
from ingest.metadata.records import (
    UNGUARDED,
    AuditRow,
    DesiredState,
    GroupState,
    Leadership,
    LedgerRow,
    NextSequence,
    NodeRecord,
    ResetWish,
    SpecGuard,
    SpecVersion,
    StagedRow,
    StreamOffsets,
    SupervisorRecord,
)
from ingest.metadata.replay_store import ReplayStore
from ingest.metadata.table_store import TableStore
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    AttemptRecord,
    AttemptState,
    PendingSegment,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    StageRequest,
)


class StoreConflict(IngestError):
    """The caller's view is outdated (a partition is owned, a sequence is sealed otherwise, ...)."""

    effect_known_absent = True


class LeadershipStore(Protocol):
    """Who leads (PR-23, PR-25)."""

    def database_id(self) -> str:
        """Drawn with the schema and kept by every copy; empty when nobody drew one. Known once ``check`` passed."""

    def leadership(self) -> Leadership | None:
        """Who leads; None when nobody ever did or the last leader resigned (take it at once)."""

    def take_leadership(self, node: str, address: str, expected: Leadership | None) -> Leadership | None:
        """Takes over iff the row still equals ``expected`` (the caller saw its beats stand still for
        the lease time); the new generation is one higher than any before. None when somebody else
        moved. Raises StoreUnreachable (effect absent) when a stuck transaction still holds the row."""
        ...

    def beat(self, generation: int) -> None:
        """Raises the heartbeat counter, a row of its own that no publish locks."""

    def testify(self, generation: int, versions: Mapping[str, int]) -> None:
        """Somebody saw this generation lead, and these versions. Raises StoreWentBack, and every later call does,
        if the database holds less: an older copy is in its place."""
        ...

    def resign(self, generation: int) -> None:
        """Lets a standby take over at once (a graceful stop)."""

    def renew_node(
        self,
        node: str,
        roles: Sequence[str],
        address: str,
        now_ms: int,
        acknowledged: dict[str, int],
        detail: dict[str, Any],
    ) -> None:
        """Renews a server's lease row; a query node's acknowledged versions never go back."""

    def forget_node(self, node: str) -> None: ...

    def nodes(self) -> list[NodeRecord]: ...

    def served_version(self, datasource: str, gone: Mapping[str, int]) -> int:
        """The lowest version acknowledged by a live node of role ``query``; the current one when none
        lives (hand-off with no live query node is complete at once). A node is live unless its row still
        bears the ``renewed_ms`` that ``gone`` names: the caller has watched that stand still. A live node
        that never acknowledged this table holds nothing back: it will begin at the current version."""


class SupervisorStore(Protocol):
    """Supervisors, their history and the audit trail."""

    def put_supervisor(  # noqa: PLR0913 - what one transaction stores
        self,
        generation: int,
        supervisor: str,
        datasource: str,
        spec: dict[str, Any],
        desired: DesiredState,
        now_ms: int,
        guard: SpecGuard = UNGUARDED,
        wish: ResetWish | None = None,
    ) -> SupervisorRecord:
        """Stores a spec as the next version and what is desired of it, with a ``wish`` as ``ask_reset`` does. A spec
        equal to the newest keeps its version (also after a lost reply), unless it ends a suspension. Another table,
        or a ``guard`` that no longer holds: StoreConflict, and nothing of it is stored."""
        ...

    def set_desired(self, generation: int, supervisor: str, desired: DesiredState, now_ms: int) -> SupervisorRecord:
        """What an operator wants from now on. Going on after a suspension makes the same spec the next
        version, as if it were posted: what is counted per version begins anew (PR-16)."""

    def start_again(self, generation: int, supervisor: str, version: int, now_ms: int) -> SupervisorRecord:
        """An operator's start of a running supervisor: its spec becomes the version after ``version``, once."""

    def parse_exceptions(self, supervisor: str, version: int) -> int:
        """Bad messages in all ranges that were published under this version of the spec (PR-16)."""

    def supervisors(self) -> list[SupervisorRecord]:
        """All that are not terminated."""
        ...

    def unfinished_supervisors(self) -> list[str]:
        """Names of those with unpublished sequences or live attempts, terminated ones too."""
        ...

    def supervisor(self, supervisor: str) -> SupervisorRecord | None:
        """Also a terminated one."""
        ...

    def history(self, supervisor: str) -> list[SpecVersion]:
        """Newest first, with a row for each termination (tombstone)."""
        ...

    def spec(self, supervisor: str, version: int) -> dict[str, Any]: ...

    def append_audit(self, generation: int, row: AuditRow) -> None: ...

    def audit(self, supervisor: str | None, limit: int, skip: int = 0) -> list[AuditRow]:
        """Newest first, without the ``skip`` newest. What comes between two pages makes rows be told twice, never
        be left out."""
        ...

    def last_audit(self, supervisor: str, action: str) -> AuditRow | None:
        """The supervisor's newest row of this action."""


class OffsetStore(Protocol):
    """Committed offsets, reset epochs, groups and sequences."""

    def offsets(self, supervisor: str, topic: str) -> StreamOffsets | None: ...

    def init_offsets(  # noqa: PLR0913 - what one transaction stores
        self,
        generation: int,
        supervisor: str,
        datasource: str,
        topic: str,
        topic_id: str | None,
        starts: OffsetMap,
        spec_version: int | None = None,
    ) -> StreamOffsets:
        """The first offset rows of (supervisor, topic), all in one transaction (PR-2). If rows
        exist, returns them unchanged; else StoreConflict when the spec is no longer ``spec_version``."""
        ...

    def add_partitions(self, generation: int, supervisor: str, topic: str, starts: OffsetMap) -> StreamOffsets:
        """Rows for partitions discovered later, before they are assigned (PR-11)."""
        ...

    def ask_reset(self, generation: int, wish: ResetWish) -> ResetWish:
        """Stores an operator's reset before it is promised, under a new id; an equal one that still waits
        is the same."""
        ...

    def reset_wishes(self, supervisor: str | None) -> list[ResetWish]:
        """Resets not carried out yet, in the order in which they were asked for."""
        ...

    def carry_out_reset(
        self, generation: int, supervisor: str, topic: str, wish_id: int, audit: AuditRow
    ) -> StreamOffsets:
        """``reset_offsets`` as the wish says, removing it in the same transaction. Nothing is changed when
        it is gone: a wish is carried out exactly once, whoever leads. One with a ``backfill`` also stores that
        supervisor and its first offsets: from the committed ones to where this stream goes on. Where that makes no
        sense any more (another topic, a name that is taken) nothing moves, and the trail says so."""
        ...

    def reset_offsets(
        self,
        generation: int,
        supervisor: str,
        topic: str,
        moves: OffsetMap | None,
        topic_id: str | None,
        audit: AuditRow,
    ) -> StreamOffsets:
        """Moves the named partitions and raises their epochs; voids every unpublished sequence that
        holds one of them, with its dependents, and reopens nothing. Other partitions keep offset and
        epoch (PR-24). ``moves`` None raises epochs only, of all partitions (PR-4). ``topic_id`` is what the moves
        were meant for, of several topics: those that move. Again with an equal ``audit`` it changes nothing."""
        ...

    def groups(self, supervisor: str) -> list[GroupState]:
        """Groups with unpublished sequences or live attempts."""
        ...

    def open_group(
        self, generation: int, supervisor: str, topic: str, partitions: Sequence[int], following: NextSequence
    ) -> SequenceRecord:
        """A new group epoch with its sequence 0. Each partition starts where its last sealed
        sequence ended, else at the committed offset (PR-11).

        Raises:
            StoreConflict: an open sequence owns one of the partitions, or the spec is no longer ``following``'s.
        """
        ...

    def seal(
        self,
        generation: int,
        ref: SequenceRef,
        end: OffsetMap,
        following: NextSequence | None,
        parse_exceptions: int = 0,
    ) -> tuple[SequenceRecord, ...]:
        """Saves the agreed end (per partition >= start) and opens the next sequence, or releases the
        partitions when ``following`` is None; one transaction. ``parse_exceptions``: bad messages known of
        the range (PR-16).

        Idempotent and first-wins: a sequence already sealed returns what is stored, whatever ``end``
        says (CK-2). A range that is empty everywhere becomes CLOSED_EMPTY. Returns the sealed record
        and, if any, its successor. On a VOID sequence raises StoreConflict.
        """
        ...

    def raise_end(self, generation: int, token: str, ref: SequenceRef, end: OffsetMap) -> SequenceRecord:
        """PR-9's last sentence: allowed while no attempt has read the next sequence, whose start moves
        along. Else, or when already published, StoreConflict."""
        ...

    def void(
        self,
        generation: int,
        supervisor: str,
        group: int,
        from_number: int,
        audit: AuditRow,
        raise_epochs: bool = False,
    ) -> list[SequenceRecord]:
        """Voids the group's unpublished sequences from ``from_number`` on and all that depend on them
        (in other groups), and releases their partitions; raises the table version (PR-13).

        ``raise_epochs``: the range is not read again, so the positions last answered there are void
        too (PR-4). StoreConflict if an earlier sequence of one of the partitions is still unpublished.
        """
        ...

    def sequences(self, supervisor: str, group: int, from_number: int) -> tuple[SequenceRecord, ...]:
        """Saved sequences of a group in order, published ones included."""
        ...


class AttemptStore(Protocol):
    """Task attempts."""

    def create_attempt(
        self, generation: int, attempt: AttemptRecord
    ) -> tuple[AttemptRecord, tuple[SequenceRecord, ...]]:
        """Stores the attempt, under a number that its task never had (PR-19). Returns the unpublished
        sequences of its group."""

    def assign_attempt(self, generation: int, token: str, worker: str) -> AttemptRecord:
        """Stores which worker shall start it and marks every unpublished sequence of its group assigned
        (PR-7), before any start order is sent. An attempt that waits for a slot has read nothing, so no
        reader waits for it: else tasks that wait for readers could hold the slot it waits for."""

    def register_attempt(
        self, generation: int, token: str, address: str, protocol: int, now_ms: int
    ) -> AttemptRecord: ...

    def record_positions(
        self, generation: int, token: str, sequence: int, positions: OffsetMap, now_ms: int
    ) -> AttemptRecord:
        """Makes reported positions durable; they never go back within one sequence."""
        ...

    def set_committer(self, generation: int, token: str) -> None:
        """Makes one live attempt of its group the committer, the others not."""
        ...

    def set_attempt_state(
        self, generation: int, token: str, state: AttemptState, error: str | None, now_ms: int
    ) -> AttemptRecord:
        """Moves an attempt forwards. An ended or fenced one never becomes live again and a live one
        never goes back: the answer is then the stored record, unchanged."""
        ...

    def attempt(self, token: str) -> AttemptRecord | None: ...

    def attempts(self, supervisor: str | None, live: bool | None, limit: int) -> list[AttemptRecord]:
        """Newest first."""
        ...


class PublishStore(Protocol):
    """Allocation, staging and the publish transaction."""

    def allocate(self, generation: int, request: AllocateRequest, now_ms: int) -> PendingSegment:
        """Same (sequence, interval), same id. The first allocation in a time chunk fixes its version
        (an ISO time derived from ``now_ms``); later ones add partition numbers under the highest
        version visible there (design 9)."""
        ...

    def stage(self, generation: int, request: StageRequest, now_ms: int) -> None:
        """Durable rows for files about to be uploaded; the same paths again renew them. StoreConflict
        for a path that is not new, or a sequence that is void or published."""
        ...

    def publish(self, generation: int, request: PublishRequest, now_ms: int) -> PublishReply:
        """The heart; order of steps in protocol-rules 18: share lock on leadership, lock on the
        offset rows, ledger lookup, fencing, offsets, then staged rows to published, offsets,
        watermark, ledger row, sequence state, table version.

        Never raises for an expected outcome; LeadershipLost for a caller that leads no more (the task
        asks the next leader), except that ALREADY is told by anybody. StoreUnreachable with
        ``effect_known_absent`` False is what a caller turns into UNKNOWN.
        """
        ...

    def ledger(self, supervisor: str, after_version: int, limit: int) -> list[LedgerRow]:
        """In version order."""
        ...

    def staged_of_ended(self, limit: int) -> list[StagedRow]:
        """What the sweeper owns (PR-20): staged rows of ended attempts, superseded ones, and rows being
        deleted; those whose file was not yet removed first."""
        ...

    def begin_delete(self, generation: int, row_ids: Sequence[int]) -> tuple[int, ...]:
        """Irreversibly marks swept rows ``deleting``. Returns which of them are now: only their files
        may be removed."""
        ...

    def finish_delete(self, generation: int, row_ids: Sequence[int], now_ms: int) -> None:
        """Notes that the files were removed; the second call, after the longest upload, ends the row's
        appearance in ``staged_of_ended``."""
        ...

    def tracked_paths(self, datasource: str) -> set[str]:
        """Keys below ``<datasource>/`` of files that are not published, but have a row that sees to them."""
        ...


class MetadataStore(
    LeadershipStore,
    SupervisorStore,
    OffsetStore,
    AttemptStore,
    PublishStore,
    ReplayStore,
    TableStore,
    LookupStore,
    PlaceStore,
    Protocol,
):
    """All of it; one object per process that may open the database."""

    def check(self) -> None:
        """Raises StoreUnreachable or StoreSchemaError with a message for people."""
        ...

    def close(self) -> None: ...
