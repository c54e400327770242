"""Clients that ask at once, in a process of their own, so that they do not share an interpreter with who answers."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self


class Clients:
    """``count`` clients that ask one statement after the other, ``rounds`` times (0: until the block ends), each the
    same ones in turn, all at once every ``every_s`` (0: without a pause). A statement's ``{client}`` becomes each one's
    number. Afterwards ``times`` are the milliseconds
    each answer took, sorted; ``refused`` counts others.
    """

    def __init__(
        self, port: int, count: int, statements: Sequence[str], use_cache: bool, *, rounds: int = 0, every_s: float = 0
    ) -> None:
        asked = {"port": port, "count": count, "statements": statements, "use_cache": use_cache, "rounds": rounds}
        self._asked = json.dumps({**asked, "every_s": every_s})
        self.times: list[float] = []
        self.refused = 0
        self.wall_s = 0.0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.benchmarks.query_clients", self._asked]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        told = self._process.communicate()[0]
        if error is None:
            result = json.loads(told)
            self.times, self.refused, self.wall_s = sorted(result["times"]), result["refused"], result["wall_s"]

    def share(self, share: float) -> float:
        """The time that this share of all answers did not exceed."""
        return self.times[min(int(len(self.times) * share), len(self.times) - 1)] if self.times else float("nan")

    def told(self) -> str:
        """One line."""
        rate = len(self.times) / max(self.wall_s, 0.001)
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{rate:.0f} queries a second, p50 {self.share(0.5):.0f} ms, p99 {self.share(0.99):.0f} ms{refused}"


def main() -> None:
    asked = json.loads(sys.argv[1])
    ended, times, refused = threading.Event(), list[float](), list[float]()
    bodies = [json.dumps({"query": sql, "context": {"useCache": asked["use_cache"]}}) for sql in asked["statements"]]
    ready = threading.Barrier(asked["count"] + 1)

    def ask(client: int) -> None:
        own = [body.replace("{client}", str(client)) for body in bodies]
        connection = http.client.HTTPConnection("127.0.0.1", asked["port"], timeout=300)
        connection.connect()
        ready.wait()
        done, first = 0, time.perf_counter()
        while not ended.wait(max(first + done * asked["every_s"] - time.perf_counter(), 0)) and (
            not asked["rounds"] or done < asked["rounds"] * len(own)
        ):
            begun = time.perf_counter()
            body = own[done % len(own)]
            connection.request("POST", "/druid/v2/sql", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            (times if response.status == 200 else refused).append((time.perf_counter() - begun) * 1_000)
            done += 1
        connection.close()

    threads = [threading.Thread(target=ask, args=(client,)) for client in range(asked["count"])]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    if not asked["rounds"]:
        sys.stdin.read()
        ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"times": times, "refused": len(refused), "wall_s": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
