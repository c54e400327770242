"""Decides where in deep storage a file lies, and which keys are safe to use as paths."""

import re
from urllib.parse import quote

from segments.civil import format_iso_ms
from segments.errors import InvalidName
from segments.identity import SegmentId

KEY_BYTES_MAX = 1024
# One folder name of a local file system.
_NAME_BYTES_MAX = 255
_QUARANTINE = "_quarantine"
_TOKEN = re.compile(r"[A-Za-z0-9-]{1,64}")
# Globbing engines read * ? [ ] in a folder's name as a pattern, and name=value as a partition column.
_SAFE = re.compile(r"[A-Za-z0-9_.~:%-]+")


def table_folder(datasource: str) -> str:
    """The prefix below which all files of a table's segments lie, and no others."""
    return f"{_encoded(datasource)}/"


def is_folder_name(text: str, room: int = 0) -> bool:
    """Whether the text can name a folder of its own, encoded, with ``room`` bytes more; the quarantine's is taken."""
    return text not in ("", ".", "..", _QUARANTINE) and len(_encoded(text)) + room <= _NAME_BYTES_MAX


def key_for(segment_id: SegmentId, attempt_token: str) -> str:
    """The key of one attempt's file of a segment; two attempts never share one.

    ``wiki/2026-01-01T00:00:00.000Z_2026-01-01T01:00:00.000Z/VERSION/PARTITION/TOKEN.parquet``. Other
    characters than letters, digits and ``_.-:`` are percent-encoded.

    Raises:
        InvalidName: the token is not 1 to 64 letters, digits and hyphens, or the key gets too long.
    """
    interval = f"{format_iso_ms(segment_id.interval.start_ms)}_{format_iso_ms(segment_id.interval.end_ms)}"
    folders = [segment_id.datasource, interval, segment_id.version, str(segment_id.partition_num)]
    return check_key("/".join(map(_encoded, folders)) + f"/{_checked_token(attempt_token)}.parquet")


def quarantine_key_for(supervisor: str, sequence: str, attempt_token: str) -> str:
    """The key of one attempt's file of a sequence's quarantined records.

    Raises:
        InvalidName: as ``key_for``.
    """
    name = f"{_QUARANTINE}/{_encoded(supervisor)}/{_encoded(sequence)}/{_checked_token(attempt_token)}.parquet"
    return check_key(name)


def check_key(key: str) -> str:
    """Returns a key that stays below its root on every storage and means the same to every reader.

    Raises:
        InvalidName: empty, too long, with empty, dotted or unsafe parts.
    """
    for part in key.split("/"):
        if part in ("", ".", "..") or not _SAFE.fullmatch(part) or len(part) > _NAME_BYTES_MAX:
            raise InvalidName(f"storage key {key!r} has a part {part!r} that is no safe folder or file name")
    if len(key) > KEY_BYTES_MAX:
        raise InvalidName(f"storage key {key[:60]!r}... is longer than {KEY_BYTES_MAX} bytes")
    return key


def _encoded(text: str) -> str:
    # quote() leaves dots alone, which check_key then judges.
    return quote(text, safe=":")


def _checked_token(token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise InvalidName(f"attempt token {token!r} must be 1 to 64 letters, digits and hyphens")
    return token
