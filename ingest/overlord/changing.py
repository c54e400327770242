"""Whether a known supervisor may go on under another spec: what was read and is unpublished stays what it was."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ingest.errors import IngestError, SpecError
from ingest.metadata.records import SpecGuard
from ingest.metadata.store import MetadataStore
from ingest.spec import IOConfig, SupervisorSpec, parse_supervisor_spec


class WrongState(IngestError):
    """The supervisor is already in the state that is asked for, or cannot reach it from where it is."""

    effect_known_absent = True


def check_change(store: MetadataStore, spec: SupervisorSpec) -> SpecGuard:
    """What this judgement relied on, for the transaction that stores the spec.

    Raises:
        WrongState: what is unpublished would be read again in another topic, from other starts or beyond its end.
        StoreUnreachable.
    """
    present = store.supervisor(spec.supervisor)
    if present is None:
        return SpecGuard()
    name, old, new = spec.supervisor, parse_supervisor_spec(present.spec)[0].io, spec.io
    idle = not store.groups(name)
    if old.topic == new.topic:
        return _check_bounds(store, name, old, new, idle)
    if not idle:
        raise WrongState(
            f"supervisor {name!r} still reads topic {old.stream!r}: suspend it, wait until its tasks "
            f"have ended, then post the spec with topic {new.stream!r}"
        )
    before = None if new.bounds is None else _last_of(store, name, new.topic)
    return SpecGuard(idle=True) if before is None else replace(_check_bounds(store, name, before, new, idle), idle=True)


def _last_of(store: MetadataStore, name: str, topic: str) -> IOConfig | None:
    """The newest spec by which the supervisor read this topic: its stored offsets go by that one."""
    for entry in store.history(name):
        if entry.spec is not None:
            with suppress(SpecError):  # of an earlier version
                io = parse_supervisor_spec(entry.spec)[0].io
                if io.topic == topic:
                    return io
    return None


def _check_bounds(store: MetadataStore, name: str, old: IOConfig, new: IOConfig, idle: bool) -> SpecGuard:
    """Stored offsets decide where reading goes on, and saved ends may have to be read again up to there."""
    bounds = new.bounds
    if bounds is None:
        return SpecGuard()
    if old.bounds is None or old.bounds.starts != bounds.starts:
        if store.offsets(name, new.topic) is None:
            return SpecGuard(unread=new.topic)
        raise WrongState(
            f"supervisor {name!r} has read topic {old.stream!r} from other offsets: post the boundedStreamConfig "
            "under another id, or keep its startSequenceNumbers and move offsets by resetOffsets"
        )
    lowered = any(bounds.ends[p] < end for p, end in old.bounds.ends.items())
    if lowered and not idle:
        raise WrongState(
            f"supervisor {name!r} still reads up to the former endSequenceNumbers: suspend it and wait until its "
            "tasks have ended, then post lower ones"
        )
    return SpecGuard(idle=lowered)
