"""From polled records to Arrow rows: every message ends in exactly one fate, and nothing it can hold raises.

``RowDecoder`` reads whole batches with typed msgspec structs; what those reject is read again, one
message at a time, by rules that alone decide and name the reason.
"""

from ingest.appenderator.decoding.batch import DecodedBatch, Fate, Rejected, RowProblem
from ingest.appenderator.decoding.decoder import RowDecoder

__all__ = ["DecodedBatch", "Fate", "Rejected", "RowDecoder", "RowProblem"]
