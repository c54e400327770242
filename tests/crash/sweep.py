"""``python -m tests.crash.sweep FOLDER FIRST STEP``: one life killed at each point, one JSON line for each.

Started with the library of ``kill_at.c`` in LD_PRELOAD. Every life and every successor is a fork of this
process, which has imported everything and runs no thread, so that a point costs no start of an interpreter.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.crash.life import begin, lived, survived


def main(folder: Path, first: int, step: int) -> int:
    """The exit code says whether every point was survived; the last line's ``killed`` is false."""
    shim = ctypes.CDLL(None)
    template = folder / "begun"
    template.mkdir()
    assert _in_child(lambda: begin(template), folder / "out") == 0, (folder / "out").read_text()
    good, point = True, first
    while True:
        root = folder / f"at-{point}"
        shutil.copytree(template, root)

        def die(root: Path = root, point: int = point) -> None:
            shim.kill_at(str(root).encode(), ctypes.c_long(point))
            lived(root)

        ended = _in_child(die, folder / "out")
        assert ended in (0, -9), (folder / "out").read_text()

        def succeed(root: Path = root) -> None:
            (folder / "began").write_text(str(survived(root)))

        succeeded = _in_child(succeed, folder / "out") == 0
        line: dict[str, object] = {"point": point, "killed": ended == -9, "survived": succeeded}
        line |= {"readFrom": int((folder / "began").read_text())} if succeeded else {}
        line |= {} if succeeded else {"why": (folder / "out").read_text()[-2_000:]}
        print(json.dumps(line), flush=True)
        good &= succeeded
        if succeeded:
            shutil.rmtree(root)
        if ended == 0:
            return 0 if good else 1
        point += step


def _in_child(act: Callable[[], None], output: Path) -> int:
    """How a fork that does this ended: 0, 1 for an exception told in ``output``, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            output.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
