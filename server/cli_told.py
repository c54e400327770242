"""What single answers of the API look like as a line for people."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

QUERY_CHARS = 100
INPUT_CHARS = 200


def moment(at: Any) -> Any:
    """A time as the API tells it, without its milliseconds."""
    return re.sub(r"\.\d+Z$", "Z", at) if isinstance(at, str) else at


def plain(text: str) -> str:
    """A text that no terminal obeys."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def parse_error(sample: dict[str, Any]) -> dict[str, Any]:
    """A record that could not be read whole, and why. Raw values that are no text are told as JSON."""
    raw = sample.get("input")
    text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
    at_ms = sample.get("timeOfExceptionMillis")
    at = datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at_ms else None
    place = {key: sample.get(key) for key in ("topic", "partition", "offset") if key != "topic" or key in sample}
    why = "; ".join(map(str, sample.get("details") or [sample.get("errorType")]))
    cut = text if len(text) <= INPUT_CHARS else text[:INPUT_CHARS] + "…"
    return {"at": at, **place, "why": plain(why), "input": plain(cut)}


def task(found: dict[str, Any]) -> dict[str, Any]:
    """A task of a list."""
    names = ("id", "dataSource", "status")
    created, error = moment(found.get("createdTime")), found.get("errorMsg")
    return {**{name: found.get(name) for name in names}, "created": created, "error": error}


def version(entry: dict[str, Any]) -> dict[str, Any]:
    """One entry of a supervisor's history."""
    spec = entry.get("spec", {})
    io = spec.get("spec", {}).get("ioConfig", {})
    ended = spec.get("type") == "NoopSupervisorSpec"
    return {"posted": moment(entry.get("version")), "what": "terminated" if ended else f"reads {_stream(io)}"}


def _stream(io: dict[str, Any]) -> str:
    return f"topic {io['topic']}" if io.get("topic") else f"topics that match {io.get('topicPattern')}"


def stats(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A supervisor's row statistics, a line for each task."""
    for group, tasks in found.items():
        for name, each in tasks.items():
            totals = each.get("totals", {}).get("buildSegments", {})
            rate = each.get("movingAverages", {}).get("buildSegments", {}).get("1m", {}).get("processed")
            counted = {key: value for key, value in totals.items() if not isinstance(value, dict)}
            yield {"group": group, "task": name, **counted, "per second (1 min)": rate}


def worker(beat: dict[str, Any]) -> dict[str, Any]:
    """A middle manager as last heard."""
    of, running = beat.get("worker", {}), beat.get("runningTasks", [])
    return {
        "address": of.get("host"),
        "tasks": len(running),
        "capacity": of.get("capacity"),
        "takes tasks": beat.get("enabled"),
        "running": ", ".join(map(str, running)),
    }


def query(entry: dict[str, Any]) -> dict[str, Any]:
    """A query under way, its text in one line."""
    text = " ".join(str(entry.get("sql") or entry.get("query") or "").split())
    return {
        "id": entry.get("sqlQueryId") or entry.get("queryId"),
        "state": entry.get("state"),
        "began": moment(entry.get("startTime")),
        "query": text if len(text) <= QUERY_CHARS else text[: QUERY_CHARS - 3] + "...",
    }


def faults(name: str, payload: dict[str, Any]) -> dict[str, str]:
    """Why a supervisor is unhealthy; nothing while it is not."""
    if payload.get("healthy"):
        return {}
    reasons = [payload["stateReason"]] if payload.get("stateReason") else []
    reasons += payload.get("waitingFor", [])
    reasons += [str(each.get("message")) for each in payload.get("recentErrors", [])[-1:]]
    return {name: f"{payload.get('detailedState', 'unhealthy')}: {'; '.join(reasons) or 'it does not say why'}"}
