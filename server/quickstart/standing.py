"""Says in words why the demonstration's counts stand still, or why a part of it does not come up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from siltstone import Client, ClientError

STANDS_S = 10.0
"""So long nothing may move before it is said why; with the usual rate something does every second."""
TAIL_BYTES = 65_536
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TROUBLE = re.compile(r"^error: |\[(warning|error|critical)\s*\]|^\S*(Error|Exception)\b")


def trouble_in(log: Path) -> str:
    """The last line of a log that tells of trouble; empty without one."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    plain = (_COLOURS.sub("", line).strip() for line in reversed(lines))
    return next((" ".join(line.split()) for line in plain if _TROUBLE.search(line)), "")


def named(name: str, log: Path) -> str:
    """Where a part's log is, and what it last complained of."""
    found = trouble_in(log)
    return f"the {name}'s log is {log}" + (f"; its last trouble: {found}" if found else ", without a trouble in it")


def unready(client: Client, is_ours: bool | None) -> str:
    """Why the service cannot be used yet; ``is_ours`` is None while that is not known."""
    try:
        if faults := client.faults():
            return "; ".join(f"{concern}: {fault}" for concern, fault in faults.items())
        if not client.leads():
            return "no overlord leads yet; after a kill the lease of the one before runs out first (10 s)"
    except ClientError as error:
        return str(error)
    if is_ours is False:
        return "another service answers at its address; choose another port by --port"
    return "it is about to begin"


def why(client: Client, supervisor: str, produced: int, produced_before: int, logs: dict[str, Path]) -> Sequence[str]:
    """Why no row has come for a while: what the supervisor waits for, else what its parts complain of."""
    try:
        told: dict[str, Any] = client.supervisor_status(supervisor)["payload"]
    except ClientError as error:
        return [f"the supervisor's status cannot be read: {error}", named("service", logs["service"])]
    if told.get("suspended"):
        return [f"the supervisor is suspended; siltstone supervisor resume {supervisor}"]
    lines = [*([told["stateReason"]] if told.get("stateReason") else []), *told.get("waitingFor", [])]
    if not lines and not told.get("healthy", True):
        lines += [str(each["message"]) for each in told.get("recentErrors", [])[-1:]]
    if produced <= produced_before:
        lines.append(f"the producer has sent nothing more ({produced:,} events): {named('producer', logs['producer'])}")
        if "broker" in logs and (found := trouble_in(logs["broker"])):
            lines.append(f"the broker complains ({logs['broker']}): {found}")
    elif not lines:
        behind, tasks = told.get("aggregateLag", 0), len(told.get("activeTasks", []))
        lines.append(
            f"{behind:,} events are not read yet by {tasks} tasks (state {told.get('detailedState')}): a task "
            f"starts, or the machine is busy; {named('service', logs['service'])}"
        )
    return lines
