"""Starts a node and kills it again, several times, in a thread of its own, and counts the kills.

The first kill is done, and proven, before the loop begins. The loop ends with a start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from docker.errors import APIError

from highwater.faults.done import NotDone
from highwater.faults.links.namespaces import NotInNamespace

_FAILED = (APIError, NotDone, NotInNamespace, OSError)


class CrashLoop:
    """One node's loop; the node has just been killed for the first time."""

    def __init__(
        self,
        times: int,
        every_s: float,
        kill: Callable[[], object],
        start: Callable[[], object],
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        """kill: raises NotDone when the node does not run, or did not end by SIGKILL.

        wait: returns whether the event was set within the seconds.
        """
        self._times = times
        self._every_s = every_s
        self._kill = kill
        self._start = start
        self._wait = wait
        self._kills = 1
        self._error = ""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crash loop", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> str:
        """End the loop, and return how often the node was killed. A second call returns the same.

        Raises:
            NotDone: a kill or a start was refused, or the node ended in another way.
        """
        self._is_over.set()
        self._thread.join()
        if self._error:
            raise NotDone(f"{self.kills_in_words()}: {self._error}")
        return self.kills_in_words()

    def has_looped(self) -> bool:
        """Return whether the node was killed twice, or once if the loop has one kill only."""
        return self._kills >= min(2, self._times)

    def kills_in_words(self) -> str:
        """Return how often the node was killed so far."""
        return f"killed {self._kills} of {self._times} times"

    def _run(self) -> None:
        try:
            self._start()
            while self._kills < self._times and not self._wait(self._is_over, self._every_s):
                self._kill()
                self._kills += 1
                self._start()
        except _FAILED as error:
            self._error = str(error)
