"""The log of a run's faults: each step is on disk before it is done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec


class IntentLog:
    """Appends one line per step of a fault's life, each synced to the disk before it returns.

    The phases of a fault, which has a number, are: intended, then acting (with its proof) or
    not_done; reverting, then reverted or not_reverted. A fault whose last phase is intended, acting
    or reverting may still act.
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

    def begin(self, fault: object) -> int:
        """Write that the fault is intended, and return its number: the next one of the file."""
        with self._lock:
            self._last += 1
            number = self._last
        self.write(number, "intended", fault=fault)
        return number

    def write(self, number: int, phase: str, **detail: Any) -> None:
        line = {"at_ns": self._now_ns(), "number": number, "phase": phase, **detail}
        with self._lock:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _last_number(content: bytes) -> int:
    """Return the highest number in the log, 0 when there is none."""
    numbers = [msgspec.json.decode(line)["number"] for line in content.splitlines()]
    return max(numbers, default=0)
