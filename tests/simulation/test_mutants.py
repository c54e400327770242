"""Every rule removed is noticed: by a stated seed of the simulation, or by a named test without it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.metadata.memory import MemoryMetadataStore
from tests.contract.metadata.world import World as StoreWorld
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutation import Mutant, catches

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}

# The seed that catches it first. `python -m tests.simulation.mutants 150` counts how many do.
SEEN = {
    "told-late-keeps": 2,
    "publish-early": 0,
    "unknown-is-success": 13,
    "unknown-is-final": 7,
    "too-early-is-final": 7,
    "failed-not-asked": 104,
    "finish-early": 0,
    "replica-never-learns": 6,
    "lagging-reads-published": 4,
    "out-of-turn": 0,
    "ends-at-its-wish": 0,
    "back-pressure-stops-all": 68,
    "saved-not-told": 0,
    "newest-publish-only": 14,
    "acquire-unreleased": 0,
    "silent-forever": 56,
    "newest-fact-only": 266,
    "tell-before-saving": 13,
    "leader-from-nothing": 5,
    "rest-keeps-epochs": 14,
    "void-alone": 196,
    "publish-any-offsets": 7,
    "version-stays": 0,
    "reset-keeps-epoch": 1,
    "sweep-published": 0,
    "numbers-reused": 1,
    "generation-unchecked": 107,
    "task-decides": 0,
    "no-join": 0,
    "moves-back": 7,
    "nobody-must-answer": 2,
    "open-may-be-short": 0,
    "two-snapshots": 0,
    "reported-forgotten": 2,
    "broken-spec-kept": 20,
    "expired-not-moved": 34,
    "claims-ignored": 95,
    "waiting-holds-slot": 340,
    "late-look-truncates": 89,
    "bad-never-stop": 14,
    "bad-forgotten": 166,
    "bad-no-final-round": 14,
    "idle-sleeps-on": 21,
    "idle-unread": 9,
    "idle-tasks-stay": 9,
    "kills-are-failures": 20,
    "session-unheeded": 19,
    "session-version-only": 19,
    "session-keeps-epochs": 267,
    "session-segment-lost": 3,
    "range-unread": 42,
    "range-without-end": 54,
}

LOOK = 400

CHECKPOINT = "tests.unit.protocol.test_task_checkpoint"
PUBLISH = "tests.unit.protocol.test_task_publish"
ROUNDS = "tests.unit.protocol.test_supervisor_rounds"
REPLICAS = "tests.unit.protocol.test_supervisor_replicas"
GROUPS = "tests.unit.protocol.test_supervisor_groups"
READERS = "tests.unit.protocol.test_supervisor_readers"
EXCEPTIONS = "tests.unit.protocol.test_supervisor_exceptions"
SCALING = "tests.unit.protocol.test_supervisor_scaling"
AGREEMENT = "tests.unit.protocol.test_agreement"
STORE = "tests.contract.metadata.test_publish"
OFFSETS = "tests.contract.metadata.test_offsets"
STAGING = "tests.contract.metadata.test_staging"
ANSWERING = "tests.unit.protocol.test_answering"

# Other rules make up for these in the simulated world; a plain test sees each.
UNSEEN: dict[str, tuple[str, str] | tuple[str, str, dict[str, object]]] = {
    "told-late-moves-end": (
        CHECKPOINT,
        "test_told_an_end_below_its_position_it_drops_and_seeks_and_does_not_read_meanwhile",
    ),
    "blind-restore": (CHECKPOINT, "test_restored_rows_past_a_saved_end_are_dropped_before_anything_is_read"),
    "no-new-committer": (REPLICAS, "test_another_replica_becomes_committer_when_the_committer_ends"),
    "reset-not-reread": (GROUPS, "test_a_reset_that_cannot_wait_voids_and_records_it", {"discard": True}),
    "void-not-noted": (GROUPS, "test_a_conflict_voids_fences_and_reads_again_with_the_inherited_time"),
    "pause-for-ever": (CHECKPOINT, "test_a_lease_that_ends_unanswered_reads_on_apart_all_the_same"),
    "ask-once": (CHECKPOINT, "test_the_ask_is_repeated_with_growing_distance"),
    "no-gap-question": (CHECKPOINT, "test_a_successor_without_its_predecessors_end_is_asked_for_and_not_taken"),
    "jump-over-gap": (CHECKPOINT, "test_a_successor_without_its_predecessors_end_is_asked_for_and_not_taken"),
    "late-seal-ends-pause": (CHECKPOINT, "test_a_late_seal_of_an_older_round_does_not_end_a_newer_pause"),
    "late-pause-begins-again": (CHECKPOINT, "test_a_late_copy_of_a_pause_that_is_over_does_not_begin_it_again"),
    "no-ask-before-reading-on": (
        CHECKPOINT,
        "test_a_lease_that_ends_first_asks_what_was_saved_then_reads_on_apart",
    ),
    "end-never-raised": (CHECKPOINT, "test_what_cannot_be_read_again_raises_the_end"),
    "stays-below-log-start": (CHECKPOINT, "test_below_the_log_start_it_withdraws_and_an_old_notice_is_ignored"),
    "keeps-void": (CHECKPOINT, "test_a_void_sequence_takes_all_later_ones_along_and_ends_the_attempt"),
    "no-ask-under-pressure": (CHECKPOINT, "test_a_sequence_that_fills_the_disk_is_ended"),
    "forgotten-not-asked": (
        PUBLISH,
        "test_told_to_stop_short_of_a_saved_end_it_asks_what_became_of_it_and_ends_when_that_is_void",
    ),
    "everybody-uploads": (PUBLISH, "test_another_replica_keeps_its_rows_and_asks_what_became_of_them"),
    "drops-unacknowledged": (PUBLISH, "test_another_replica_keeps_its_rows_and_asks_what_became_of_them"),
    "never-too-old": (ANSWERING, "test_below_what_was_dropped_it_is_too_old_never_less_rows"),
    "one-replicas-end": (AGREEMENT, "test_the_end_is_the_furthest_position_per_partition"),
    "end-below-start": (AGREEMENT, "test_a_laggard_in_an_earlier_sequence_never_pulls_the_end_below_the_start"),
    "any-report": (AGREEMENT, "test_a_repeated_report_counts_once"),
    "no-deadline": (ROUNDS, "test_after_the_pausing_deadline_it_goes_on_with_those_that_reported"),
    "empty-never-closes": (ROUNDS, "test_a_new_spec_cuts_over_at_a_checkpoint_even_if_nothing_was_read"),
    "no-reader-awaited": (
        GROUPS,
        "test_what_only_a_dead_task_had_read_is_read_again_before_its_sequence_ends",
        {"reason": "suspended"},
    ),
    "automatic-moves-back": (GROUPS, "test_what_was_read_before_an_automatic_reset_is_not_read_again"),
    "held-by-any": (GROUPS, "test_who_reads_on_behind_a_lost_range_holds_nothing_of_it"),
    "last-moment-lost": (
        READERS,
        "test_what_a_dead_task_may_have_read_since_it_reported_is_read_again_before_a_suspension_ends",
    ),
    "silent-not-heard-out": (READERS, "test_a_silent_replica_is_waited_for_once"),
    "back-in-vain": (GROUPS, "test_a_task_that_comes_back_with_its_rows_ends_the_automatic_reset"),
    "held-not-counted": (GROUPS, "test_what_somebody_has_read_has_not_expired"),
    "empty-overtaken": (STORE, "test_a_later_group_does_not_overtake_a_range_that_is_empty_where_they_meet"),
    "reserve-read-into": (
        PUBLISH,
        "test_at_the_disks_reserve_a_told_end_is_read_up_to_and_the_open_sequence_waits",
    ),
    "assigned-unmarked": (OFFSETS, "test_a_successor_is_assigned_when_attempts_read_on_into_it"),
    "bad-published-only": (EXCEPTIONS, "test_published_sealed_and_open_ranges_count_together"),
    "decided-forgotten": (SCALING, "test_the_next_leader_lays_the_tasks_out_as_was_decided"),
    "scales-while-moving": (SCALING, "test_no_further_step_is_taken_while_partitions_move"),
    "refused-reset-stays": (GROUPS, "test_a_refused_reset_is_tried_again"),
    "no-cut-over": (ROUNDS, "test_a_new_spec_cuts_over_at_a_checkpoint_even_if_nothing_was_read"),
    "stopping-unheard": (
        REPLICAS,
        "test_a_task_that_an_earlier_leader_told_to_leave_gets_a_successor_from_the_next_one",
    ),
    "ends-not-taken": (REPLICAS, "test_a_crashed_attempt_is_replaced_on_its_worker_after_a_growing_wait"),
    "last-fenced-at-once": (
        REPLICAS,
        "test_the_last_replica_is_probed_then_doubled_and_fenced_only_when_the_second_has_caught_up",
    ),
    "stall-counts": (REPLICAS, "test_a_loop_that_stood_still_blames_nobody"),
    "window-not-inherited": (GROUPS, "test_a_conflict_voids_fences_and_reads_again_with_the_inherited_time"),
    "reset-before-publish": (
        GROUPS,
        "test_a_reset_first_publishes_what_was_read_and_leaves_other_partitions_alone",
    ),
    "no-ledger": (STORE, "test_the_other_replica_that_publishes_later_is_told_already"),
    "fence-before-ledger": (STORE, "test_a_repeated_publish_is_already_even_when_the_attempt_was_fenced_since"),
    "no-epoch-check": (STORE, "test_an_epoch_that_is_not_the_sequences_is_fenced"),
    "void-publishes": (STORE, "test_a_voided_sequence_is_a_conflict"),
    "files-unchecked": (STORE, "test_files_that_are_not_staged_must_be_staged_again"),
    "last-seal-wins": (OFFSETS, "test_the_first_saved_end_wins"),
    "acquire-at-committed": (OFFSETS, "test_released_partitions_are_acquired_at_their_saved_end"),
    "sweep-live": (STAGING, "test_files_of_a_live_attempt_are_not_swept"),
    "waiting-is-assigned": (
        "tests.contract.metadata.test_attempts",
        "test_an_attempt_with_a_worker_marks_its_groups_unpublished_sequences_assigned",
    ),
    "fenced-may-act": ("tests.contract.metadata.test_attempts", "test_an_ended_attempt_stays_ended_whatever_comes"),
    "reports-not-kept": (OFFSETS, "test_groups_show_unpublished_sequences_live_attempts_and_what_was_reported"),
}


def run_plainly(module: str, name: str, given: dict[str, object] | None = None) -> None:
    """Calls a test function as pytest would, on a fresh memory store where it wants one."""
    function: Callable[..., None] = getattr(importlib.import_module(module), name)
    wanted = inspect.signature(function).parameters
    arguments: dict[str, object] = dict(given or {})
    if "world" in wanted:
        world = StoreWorld(MemoryMetadataStore())
        world.start()
        arguments["world"] = world
    if "holding" in wanted:
        arguments["holding"] = importlib.import_module(module).hold_published()
    function(**arguments)


@pytest.mark.parametrize("name", SEEN)
def test_the_simulation_notices_that_a_rule_is_missing(name: str) -> None:
    """The stated seed first; a change elsewhere may move the story to another of the first ones."""
    with BY_NAME[name].applied():
        assert any(catches(seed) for seed in (SEEN[name], *range(LOOK)))


@pytest.mark.parametrize("name", UNSEEN)
def test_a_plain_test_notices_what_the_simulation_cannot(name: str) -> None:
    run_plainly(*UNSEEN[name])
    with BY_NAME[name].applied(), pytest.raises((Exception, pytest.fail.Exception)):
        run_plainly(*UNSEEN[name])


def test_every_mutant_is_noticed_somewhere() -> None:
    assert sorted(SEEN | UNSEEN) == sorted(BY_NAME)
    assert len(BY_NAME) == len(MUTANTS)


def test_a_removed_rule_is_back_after_the_block() -> None:
    mutant: Mutant = BY_NAME["told-late-keeps"]
    [(owner, name, _)] = mutant.patches()
    before = getattr(owner, name)
    with mutant.applied():
        assert getattr(owner, name) is not before
    assert getattr(owner, name) is before


def test_the_table_in_the_documents_names_every_mutant_and_where_it_is_noticed() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    for name in SEEN:
        assert f"| `{name}` |" in text, f"{name} is missing"
    for name, unseen in UNSEEN.items():
        assert f"| `{name}` |" in text and f"`{unseen[1]}`" in text, f"{name} or {unseen[1]} is missing"
