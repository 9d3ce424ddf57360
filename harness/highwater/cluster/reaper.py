"""A small process that cleans up after a harness that was killed.

It has the reading end of a pipe whose writing end only the harness has. The pipe ends when the
harness dies in any way; clusters that are still up are then removed by label. The reaper has a
session of its own, so a Ctrl-C or a kill of the harness's group does not reach it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
import time

CLUSTER_UP = b"+"
CLUSTER_DOWN = b"-"
END_WITHIN_S = 10.0
QUIET_S = 10.0
SWEEP_INTERVAL_S = 0.2


class ReaperLease:
    """This process's lease: one reaper for all its clusters, started with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = 0
        self._clusters = 0

    def cluster_up(self) -> None:
        self._tell(CLUSTER_UP)

    def cluster_down(self) -> None:
        self._tell(CLUSTER_DOWN)

    def end(self) -> None:
        """Called at this process's end: the reaper removes clusters that are up, and ends."""
        process, self._process = self._process, None
        if process is None or self._pid != os.getpid() or process.stdin is None:
            return
        process.stdin.close()
        if self._clusters == 0:
            process.wait(END_WITHIN_S)

    def _tell(self, what: bytes) -> None:
        with self._lock:
            self._clusters += 1 if what == CLUSTER_UP else -1
            if self._process is None or self._pid != os.getpid():
                self._process = _start()
                self._pid = os.getpid()
            stdin = self._process.stdin
            if stdin is not None:
                try:
                    stdin.write(what)
                    stdin.flush()
                except BrokenPipeError:
                    # The reaper is gone; the sweep at the next start does its work.
                    self._process = None


REAPER = ReaperLease()
atexit.register(REAPER.end)


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "highwater.cluster.reaper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )


def main() -> int:
    """Wait until the harness is gone, and remove its clusters."""
    clusters = 0
    while chunk := os.read(0, 4096):
        clusters += chunk.count(CLUSTER_UP) - chunk.count(CLUSTER_DOWN)
    if clusters <= 0:
        return 0
    # Imported here: a reaper with nothing to do needs no imports.
    from highwater.cluster.cleaning import sweep_stale
    from highwater.cluster.engine import connect_engine

    # The pipe ends a moment before the process does, and the engine may still carry out its last
    # requests: the work is done only after a while without new resources.
    engine = connect_engine()
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + QUIET_S:
        if sweep_stale(engine):
            quiet_since = time.monotonic()
        time.sleep(SWEEP_INTERVAL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
