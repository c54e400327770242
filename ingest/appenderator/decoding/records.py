"""What a format reads of polled records, and which records the headers alone keep out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.appenderator.decoding.formats.record import KafkaRecord
from ingest.spec.formats import HEADERS, KEYS, KafkaFormat
from ingest.spec.model import HeaderFilter, InputFormat
from ingest.stream.supplier import Headers, OpenDocuments, Poll


def messages_of(polls: Sequence[Poll], form: InputFormat) -> list[Any]:
    """One message a record in the order of the polls: its value, or all of it where the format reads more."""
    messages: list[Any] = []
    for poll in polls:
        if not isinstance(form, KafkaFormat):
            messages.extend(poll.values)
            continue
        keys = poll.keys if poll.keys is not None else repeat(None)
        times = poll.timestamps_ms if len(poll.timestamps_ms) == len(poll.values) else repeat(-1)
        topic = repeat(None if poll.source is None else poll.source[0])
        messages.extend(map(KafkaRecord, poll.values, keys, _headers_of(poll), times, topic))
    return messages


class Beside:
    """What stands beside the values of polled records, by the message's position."""

    def __init__(self, polls: Sequence[Poll]) -> None:
        self._polls = polls
        self._ends = list(accumulate(map(len, polls)))

    def of(self, at: int) -> tuple[bytes | None, Headers | None, frozenset[str], OpenDocuments | None]:
        """Key, headers, which of the two were read at all, and the documents that were wanted."""
        which = bisect_right(self._ends, at)
        poll, place = self._polls[which], at - (self._ends[which - 1] if which else 0)
        parts = {KEYS} if poll.keys is not None else set()
        parts |= {HEADERS} if poll.headers is not None else set()
        key = None if poll.keys is None else poll.keys[place]
        headers = None if poll.headers is None else poll.headers[place]
        return key, headers, frozenset(parts), None if poll.documents is None else poll.documents[place]


def wanted_documents(polls: Sequence[Poll]) -> dict[int, OpenDocuments]:
    """By the message's position: which documents are to be read, where not all of them are."""
    wanted: dict[int, OpenDocuments] = {}
    first = 0
    for poll in polls:
        for at, documents in enumerate(poll.documents or ()):
            if documents is not None:
                wanted[first + at] = documents
        first += len(poll)
    return wanted


def _headers_of(poll: Poll) -> Iterator[Headers]:
    return iter(poll.headers) if poll.headers is not None else repeat(())


def kept_by_headers(polls: Sequence[Poll], wanted: HeaderFilter) -> npt.NDArray[np.bool_]:
    """For each record whether it is read at all. As in Druid the last header of the name decides, and one that
    is missing or has no value keeps its record."""
    kept: list[bool] = []
    for poll in polls:
        for _, headers in zip(poll.values, _headers_of(poll), strict=False):
            found = next((value for name, value in reversed(headers) if name == wanted.name), None)
            kept.append(found is None or found.decode(wanted.encoding, errors="replace") in wanted.values)
    return np.array(kept, dtype=np.bool_)
