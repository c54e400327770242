"""Makes statements at random from every function and operator there is; most mean nothing, some do."""

from random import Random

from query.sql.frame import AGGREGATES, ARITIES, FUNCTIONS
from query.sql.windows import WINDOW_NAMES

LEAVES = [
    "s",
    "S",
    "mv",
    "n",
    "d",
    "__time",
    "1",
    "2.5",
    "'a'",
    "'P1D'",
    "'2024-01-01'",
    "NULL",
    "TRUE",
    "ARRAY['a','b']",
    "ARRAY[1,2]",
    "DATE_",
    "CURRENT_TIMESTAMP",
    "'UTC'",
    "0",
    "-1",
    "''",
    "'HOUR'",
    "'yyyy'",
]
TYPES = ("VARCHAR", "BIGINT", "DOUBLE", "FLOAT", "BOOLEAN", "TIMESTAMP", "DATE", "VARCHAR ARRAY", "BIGINT ARRAY")
SCALARS = sorted(set(FUNCTIONS) - AGGREGATES - set(WINDOW_NAMES))
# Sums have 128 bits, where columns have 64.
SUMMED = (
    "(SELECT SUM(n) AS n, MIN(s) AS s, MAX(S) AS S, AVG(d) AS d, MAX(__time) AS __time, "
    "ARRAY_TO_MV(ARRAY_AGG(s)) AS mv FROM t GROUP BY S)"
)
SUMMARIES = sorted(AGGREGATES - {"GROUPING"})


class Statements:
    """A source of statements that is the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def statement(self) -> str:
        """One statement over the table ``t``; a third of them over what a subquery makes of it."""
        source = self._random.choice(["t", "t", SUMMED])
        return self._statement().replace("FROM t", f"FROM {source}").replace("JOIN t ", f"JOIN {source} ")

    def _statement(self) -> str:
        first, second, third = self._value(2), self._value(1), self._value(1)
        return self._random.choice(
            [
                f"SELECT {first} FROM t",
                f"SELECT {first}, COUNT(*) FROM t GROUP BY 1 ORDER BY 1",
                f"SELECT {self._summary()}, {self._summary()} FROM t GROUP BY {second}",
                f"SELECT s FROM t WHERE {first} = {second} ORDER BY {third}, n",
                f"SELECT {self._summary()} OVER (PARTITION BY {second} ORDER BY n), {first} FROM t",
                f"SELECT a.n FROM t a LEFT JOIN t b ON a.s = b.S WHERE a.mv = b.s OR b.n IN (SELECT {second} FROM t)",
                f"WITH w AS (SELECT {first} AS x, {second} AS y FROM t) SELECT x, MAX(y) FROM w GROUP BY x",
                f"SELECT DISTINCT {first}, {second} FROM t UNION ALL SELECT {third}, n FROM t",
            ]
        )

    def _value(self, depth: int) -> str:
        if depth == 0 or self._random.random() < 0.2:
            return self._random.choice(LEAVES).replace("DATE_", "DATE '2024-02-03'")
        return self._composed(*(self._value(depth - 1) for _ in range(4)))

    def _composed(self, one: str, two: str, three: str, four: str) -> str:
        name = self._random.choice(SCALARS)
        least, most = ARITIES[name]
        count = self._random.randint(least, max(least, min(most, 3)))
        called = f"{name}({', '.join([one, two, three, four][:count])})"
        return self._random.choice(
            [
                *[called] * 6,
                f"({one} {self._random.choice('+-*/%')} {two})",
                f"({one} {self._random.choice(['=', '<>', '<', '>='])} {two})",
                f"CAST({one} AS {self._random.choice(TYPES)})",
                f"CASE WHEN {one} = {two} THEN {three} ELSE {four} END",
                f"({one} IN ({two}, {three}))",
                f"({one} BETWEEN {two} AND {three})",
                f"({one} IS NULL AND {two} LIKE {three})",
                f"EXTRACT(DOW FROM {one})",
                f"FLOOR({one} TO DAY)",
            ]
        )

    def _summary(self) -> str:
        name = self._random.choice(SUMMARIES)
        count = self._random.randint(*ARITIES[name])
        arguments = ", ".join(self._value(1) for _ in range(count))
        return f"{name}({self._random.choice(['', 'DISTINCT '])}{arguments})"
