"""Decides whether a posted supervisor spec is accepted, and turns it into a ``SupervisorSpec``."""

from __future__ import annotations

import copy
from typing import Any

from ingest.errors import SpecError
from ingest.spec.edge import DataSchemaEdge, EnvelopeEdge, IOConfigEdge, SpecEdge, TuningEdge
from ingest.spec.legacy import without_parser
from ingest.spec.model import SupervisorSpec
from ingest.spec.notes import Notes, read_block
from ingest.spec.rules import read_data_schema
from ingest.spec.rules_index import warn_without_meaning
from ingest.spec.rules_io import read_io, read_tuning
from segments.storage.layout import is_folder_name

ROOM = 55
"""Bytes that the names of a supervisor's tasks and sequences add to its own, in names of folders."""

_CONFIGS = ("dataSchema", "ioConfig", "tuningConfig")


def parse(posted: Any) -> tuple[SupervisorSpec, tuple[str, ...]]:
    """See ``ingest.spec.parse_supervisor_spec``."""
    notes = Notes()
    if not isinstance(posted, dict):
        notes.problem("$", posted, "a supervisor spec is a JSON object", 'post {"type": "kafka", "spec": {...}}')
        raise SpecError(notes.problems, notes.warnings)
    outer = {name: value for name, value in posted.items() if name not in _CONFIGS}
    envelope = read_block(EnvelopeEdge, outer, "$", notes)
    if envelope.type != "kafka":
        notes.refused("$.type", envelope.type, "this supervisor type", 'use "kafka"')
    # Druid's older flat form has the three configs at the top.
    flat = "spec" not in posted and any(name in posted for name in _CONFIGS)
    path, configs = ("$", posted) if flat else ("$.spec", envelope.spec)
    if configs is None:
        notes.problem("$.spec", posted.get("spec"), "is required", "add spec with dataSchema and ioConfig")
        raise SpecError(notes.problems, notes.warnings)
    configs = {name: value for name, value in configs.items() if name in _CONFIGS or not flat}
    configs = without_parser(configs, path, notes)
    known, blocks = _blocks(configs, path, notes)
    schema = read_data_schema(blocks.data_schema, blocks.io_config, blocks.tuning_config, path, notes)
    io = read_io(blocks.io_config, f"{path}.ioConfig", "ioConfig" in known, notes)
    warn_without_meaning(blocks.io_config, blocks.tuning_config, path, notes)
    tuning = read_tuning(blocks.tuning_config, f"{path}.tuningConfig", notes)
    supervisor = envelope.id if envelope.id else (blocks.data_schema.data_source or "")
    wrong = "/" in supervisor or supervisor.startswith(".") or supervisor != supervisor.strip()
    if wrong or not supervisor.isprintable() or (supervisor and not is_folder_name(supervisor, ROOM)):
        # Without an id the table's name is the supervisor's.
        rule = (
            f"must be a name of up to {255 - ROOM} bytes ({(255 - ROOM) // 3} beyond ASCII letters and digits) without "
            "slashes, a leading dot, control characters or outer blanks, and not _quarantine"
        )
        notes.problem("$.id", supervisor, rule, "choose another id")
    if notes.problems:
        raise SpecError(notes.problems, notes.warnings)
    assert schema is not None and io is not None
    spec = SupervisorSpec(
        supervisor, envelope.suspended, schema, io, tuning, dict(envelope.context or {}), copy.deepcopy(posted)
    )
    return spec, tuple(notes.warnings)


def _blocks(configs: dict[str, Any], path: str, notes: Notes) -> tuple[frozenset[str], SpecEdge]:
    """Each config read for itself, so that one broken config does not hide another's faults."""
    present = frozenset(name for name in _CONFIGS if configs.get(name) is not None)
    for name in configs:
        if name not in _CONFIGS and name != "type":
            notes.warn(f"{path}.{name} is not known and has no effect")
    for name in ("dataSchema", "ioConfig"):
        if name not in present:
            notes.problem(f"{path}.{name}", configs.get(name), "is required", f"add {name}")
    return present, SpecEdge.model_construct(
        data_schema=read_block(DataSchemaEdge, configs.get("dataSchema") or {}, f"{path}.dataSchema", notes),
        io_config=read_block(IOConfigEdge, configs.get("ioConfig") or {}, f"{path}.ioConfig", notes),
        tuning_config=read_block(TuningEdge, configs.get("tuningConfig") or {}, f"{path}.tuningConfig", notes),
    )
