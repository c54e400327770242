"""Asks all the time what is there and proves each answer: a prefix of every partition, never too short or long.

Rows whose records were destroyed before they were published are left out of the question.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from siltstone import Client, ClientError
from tests.chaos.content import Content, Loss, judged

SILENCE_S = 10.0
SQL = "SELECT p, COUNT(*) AS n, MAX(seq) AS top, SUM(seq) AS total FROM chaos WHERE {sound} GROUP BY p"


class Witness:
    """One thread. A query may fail by name while something is broken; an answer may never be wrong.

    A node promises that a count never falls from its start on; ``begin_life`` says that the node was
    killed, after which an answer may be behind the last one (counted in ``rewinds``), never wrong.
    """

    def __init__(self, client: Client, content: Content) -> None:
        self._client = Client(client.url, timeout_s=25.0)
        self._content = content
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._life = 0
        self._judged_life = 0
        self._last_good = time.monotonic()
        self.seen: list[int] = []
        self.answers = 0
        self.faults: list[str] = []
        self.failures: list[str] = []
        self.rewinds: list[int] = []
        self.longest_silence_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def begin_life(self) -> None:
        self._life += 1

    def sees_all(self) -> bool:
        """Whether the last answer held everything that was ever sent and not destroyed."""
        return self.seen == self._content.reaches()

    def _run(self) -> None:
        while not self._stop.is_set():
            life, loss = self._life, self._content.loss
            try:
                rows = self._client.sql(SQL.format(sound=loss.condition()))
            except ClientError as error:
                self.failures.append(str(error))
                self._stop.wait(0.2)
            else:
                self._note_silence(time.monotonic())
                self._judge([(int(r["p"]), int(r["n"]), int(r["top"]), int(r["total"])) for r in rows], life, loss)
            self._stop.wait(0.1)

    def _note_silence(self, now: float) -> None:
        silent_s = now - self._last_good
        self._last_good = now
        self.longest_silence_s = max(self.longest_silence_s, silent_s)
        if silent_s > SILENCE_S:
            reason = self.failures[-1][:200] if self.failures else "the answer took so long"
            print(f"{time.strftime('%H:%M:%S', time.gmtime())} no answer for {silent_s:.1f} s: {reason}", flush=True)

    def _judge(self, rows: Sequence[tuple[int, int, int, int]], life: int, loss: Loss) -> None:
        self.answers += 1
        found, faults = judged(loss, self._content.sent, rows)
        for fault in faults:
            self._accuse(fault)
        before = [loss.reach(p, end) for p, end in enumerate(self.seen)]
        before += [0] * (len(found) - len(before))
        fell = [(p, old, new) for p, (old, new) in enumerate(zip(before, found, strict=True)) if new < old]
        if fell and life == self._judged_life:
            self._accuse("fell: " + ", ".join(f"partition {p} from {old} to {new}" for p, old, new in fell))
        elif fell:
            self.rewinds.append(sum(old - new for _, old, new in fell))
        self._judged_life = life
        self.seen = found

    def _accuse(self, what: str) -> None:
        stamp = time.strftime("%H:%M:%S", time.gmtime())
        self.faults.append(f"{stamp} answer {self.answers}: {what}")
        print(f"!! {self.faults[-1]}", flush=True)
