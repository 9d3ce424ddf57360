"""The log of a run's faults: each step is on disk before it is done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from highwater_chaos.faults import Fault
from highwater_checker.run_folder.intents import Intent, Phase, decode_intents, encode_intent


class IntentLog:
    """Appends one line per step of a fault's life, each synced to the disk before it returns.

    A fault whose last phase is intended, acting, reverting or not_reverted may still act.
    """

    def __init__(self, path: Path, now_ns: Callable[[], int]) -> None:
        """Open the file, and cut off a torn line at its end: that line's step was not begun.

        now_ns: returns the run's time.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        self._file.truncate(len(whole))
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._last = _last_number(whole)

    def now_ns(self) -> int:
        """Return the run's time."""
        return self._now_ns()

    def begin(self, fault: Fault) -> int:
        """Write that the fault is intended, and return its number: the next one of the file."""
        with self._lock:
            self._last += 1
            number = self._last
        self._write(Intent(self._now_ns(), number, Phase.INTENDED, fault))
        return number

    def write(
        self,
        number: int,
        phase: Phase,
        *,
        node: int | None = None,
        proof: str = "",
        why: str = "",
        seen: str = "",
        acted_ago_ns: int | None = None,
    ) -> None:
        """Write that the fault comes to that phase; acted_ago_ns: how long it has acted by now."""
        at_ns = self._now_ns()
        acted_ns = None if acted_ago_ns is None else at_ns - acted_ago_ns
        self._write(
            Intent(
                at_ns,
                number,
                phase,
                node=node,
                proof=proof,
                why=why,
                seen=seen,
                acted_ns=acted_ns,
            )
        )

    def _write(self, line: Intent[Fault]) -> None:
        with self._lock:
            self._file.write(encode_intent(line) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _last_number(content: bytes) -> int:
    """Return the highest number in the log, 0 when there is none."""
    return max((line.number for line in decode_intents(content)), default=0)
