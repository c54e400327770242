"""What a task has to import after it was forked delays its first row: nothing heavy is left."""

from __future__ import annotations

import subprocess
import sys

FIRST_ROW = """
import sys
import server.peon
before = set(sys.modules)
sys.meta_path.insert(0, server.peon.NoPandas())
from ingest.appenderator.decoding import RowDecoder
from ingest.spec import parse_supervisor_spec
from ingest.stream.supplier import Poll
posted = {"type": "kafka", "spec": {
    "dataSchema": {"dataSource": "x", "timestampSpec": {"column": "t", "format": "millis"},
                   "dimensionsSpec": {"dimensions": ["a"]}},
    "ioConfig": {"topic": "t", "inputFormat": {"type": "json"}, "consumerProperties": {"bootstrap.servers": "h:1"}}}}
poll = Poll(0, 0, 1, range(1), [b'{"t": "1700000000000", "a": "x"}'], [])
rows = RowDecoder(parse_supervisor_spec(posted)[0].data_schema).decode([poll], 0).rows
assert rows.column("a").to_pylist() == ["x"]
print(*sorted(name.partition(".")[0] for name in set(sys.modules) - before))
"""


def test_a_tasks_first_row_imports_no_library() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_ROW], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) <= {"ingest", "segments"}
