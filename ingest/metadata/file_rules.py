"""Which files a publish makes visible, and whether they are the ones that were staged for it (PR-20; pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingest.metadata.store import StoreConflict
from ingest.protocol import PublishOutcome, PublishReply, PublishRequest


@dataclass(frozen=True, slots=True)
class StagedClaim:
    """A staged row of the publishing attempt's sequence: what it was meant for and where it lies."""

    row_id: int
    path: str
    segment_id: str | None


def judge_files(
    request: PublishRequest, claims: Sequence[StagedClaim], allocated: frozenset[str]
) -> PublishReply | None:
    files = published_files(request)
    unknown = [name for name in files if name is not None and name not in allocated]
    if unknown:
        raise StoreConflict(f"segment {unknown[0]} was not allocated to sequence {request.ref.name}")
    staged = {claim.segment_id: claim.path for claim in claims}
    if len(claims) != len(files) or staged.keys() != files.keys():
        return refused(PublishOutcome.RESTAGE, f"{len(claims)} files are staged, {len(files)} were to be published")
    for name, load_spec in files.items():
        if not names_path(load_spec, staged[name]):
            return refused(PublishOutcome.RESTAGE, f"{name or 'the quarantine file'} is staged at {staged[name]}")
    return None


def refused(outcome: PublishOutcome, detail: str) -> PublishReply:
    return PublishReply(outcome, 0, detail)


def published_files(request: PublishRequest) -> dict[str | None, Mapping[str, Any]]:
    """Load specs by segment id; under None that of the quarantine file, if there is one."""
    files: dict[str | None, Mapping[str, Any]] = {str(s["id"]): s["loadSpec"] for s in request.segments}
    assert len(files) == len(request.segments), "a segment id twice in one publish"
    if request.quarantine is not None:
        files[None] = request.quarantine["loadSpec"]
    return files


def names_path(load_spec: Mapping[str, Any], path: str) -> bool:
    """Whether a load spec points at the staged key, whatever root or prefix its storage adds.

    Without this a late copy of a publish would make files visible that a later upload replaced and
    that the sweeper is about to delete.
    """
    return any(isinstance(v, str) and (v == path or v.endswith("/" + path)) for v in load_spec.values())
