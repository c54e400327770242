"""Statements that need more memory than there is, each where the engine counts little of it, and a way to ask them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from query.binding import Function, Relation
from query.engine import Engine
from query.lanes import Claim
from query.runs import Run, Worker

QUICK = {
    "texts of megabytes": "SELECT max(length(t)) FROM (SELECT repeat('ab', 4000000 + i) AS t FROM range(4000) x(i))",
    "an answer of wide texts": "SELECT repeat('ab', 500000 + i) AS t FROM range(2000) x(i)",
    "one text of all rows": "SELECT length(string_agg(i::VARCHAR, ',')) FROM range(20000000) x(i)",
    "one list of all rows": "SELECT len(list(i)) FROM range(30000000) x(i)",
    "a list that is an answer": "SELECT list('some text of length ' || i) FROM range(3000000) x(i)",
    "UNNEST of one huge list": "SELECT sum(u) FROM (SELECT unnest(range(50000000)) AS u)",
    "LATERAL UNNEST": "SELECT count(*) FROM range(100) t(i), LATERAL (SELECT unnest(range(3000000 + i)) AS u)",
    "window frames of lists": "SELECT max(s) FROM (SELECT list(i) OVER (ORDER BY i ROWS BETWEEN 10000 PRECEDING AND "
    "CURRENT ROW) AS s FROM range(20000) t(i))",
    "a median of all rows": "SELECT quantile_cont(i, 0.5) FROM range(50000000) t(i)",
    "doubling": "WITH RECURSIVE r AS (SELECT repeat('a', 10) AS t, 1 AS n UNION ALL SELECT t || t, n + 1 FROM r "
    "WHERE n < 40) SELECT max(length(t)) FROM r",
}
_NUMBERS = ", ".join(f"i + {n} AS c{n}" for n in range(10_000))
_TEXTS = ", ".join(f"'text {n} ' || i AS c{n}" for n in range(2_000))
LARGE = {
    "RPAD": "SELECT sum(length(rpad('x', 16000000 + i::INT, 'ab'))) FROM range(3000) t(i)",
    "REPLACE": "SELECT max(length(replace(repeat('a', 1000000 + i), 'a', 'bbbbbbbbbbbbbbb'))) FROM range(3000) t(i)",
    "wide JSON": "SELECT count(json_extract_string('{\"a\":\"' || repeat('x', 5000000 + i) || '\"}', '$.a')) "
    "FROM range(5000) t(i)",
    "SPLIT": "SELECT max(len(string_split(repeat('a,', 3000000 + i::INT), ','))) FROM range(3000) t(i)",
    "JSON of all rows": "SELECT length(json_group_array(i)::VARCHAR) FROM range(5000000) t(i)",
    "a list of texts": "SELECT len(list('some text of length ' || i)) FROM range(10000000) x(i)",
    "columns of numbers": f"SELECT {_NUMBERS} FROM range(100000) t(i)",
    "columns of texts": f"SELECT {_TEXTS} FROM range(20000) t(i)",
    "a cross join": "SELECT count(DISTINCT a.i * b.j) FROM range(20000) a(i), range(1000) b(j)",
    "different texts": "SELECT count(*) FROM (SELECT DISTINCT i::VARCHAR || repeat('x', 90) FROM range(5000000) t(i))",
    "different numbers": "SELECT count(DISTINCT i) FROM range(50000000) t(i)",
    "wide rows in order": "SELECT repeat('w', 2000) || i AS t FROM range(500000) t(i) ORDER BY hash(i)",
    "a join of wide keys": "SELECT count(*) FROM (SELECT repeat('k', 200) || i AS k FROM range(2000000) a(i)) a JOIN "
    "(SELECT repeat('k', 200) || j AS k FROM range(2000000) b(j)) b USING (k)",
    "windows": "SELECT sum(s) FROM (SELECT sum(i) OVER (PARTITION BY i % 7 ORDER BY i) AS s FROM range(5000000) t(i))",
    "lists by group": "SELECT count(l) FROM (SELECT i % 100000 AS g, list('xxxxxxxxxxxxxxxxxxxxxxxx' || i) AS l "
    "FROM range(10000000) t(i) GROUP BY 1)",
    "rows that make rows": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + x.i FROM r, range(100) x(i) "
    "WHERE n < 100000) SELECT count(*) FROM r",
    "a pivot": "SELECT count(*) FROM (PIVOT (SELECT i % 1000 AS g, i % 5000 AS k, i FROM range(3000000) t(i)) "
    "ON k IN (" + ", ".join(map(str, range(2_000))) + ") USING list(i) GROUP BY g)",
}


class _Forgetting:
    """The owner of a run, who forgets the highest memory that its worker had before."""

    claim = Claim()

    def started(self, run: Run) -> None:
        Path(f"/proc/{run.pid}/clear_refs").write_text("5")

    def check(self) -> None:
        """Nothing."""


class WatchedEngine(Engine):
    """Knows the highest memory that the last query's worker had, in bytes, pages of files aside."""

    peak_bytes = 0

    def give_back(self, run: Run, worker: Worker, reusable: bool) -> None:
        """As the engine's."""
        lines = Path(f"/proc/{worker.process.pid}/status").read_text().splitlines()
        told = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
        assert "VmHWM" in told, "the worker died"
        self.peak_bytes = (int(told["VmHWM"][0]) - int(told["RssFile"][0])) << 10
        super().give_back(run, worker, reusable)

    def rows_of(
        self, statement: str, limit: int, relations: Sequence[Relation] = (), functions: Sequence[Function] = ()
    ) -> int:
        """How many an attack's answer has. Meanwhile the worker had no more memory than its limit."""
        self.peak_bytes = 0
        try:
            run = self.run(statement, relations, owner=_Forgetting(), functions=functions)
            return sum(batch.num_rows for batch in run.batches())
        finally:
            assert 0 < self.peak_bytes <= limit
