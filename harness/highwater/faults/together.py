"""Combines the requests that several threads make at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

TOGETHER_S = 0.1
"""How long a request waits for others. Those that come meanwhile are done together with it."""

R = TypeVar("R")


class Together(Generic[R]):
    """Requests that wait; the first thread to get the lock does the requests of all threads."""

    def __init__(
        self,
        do: Callable[[Sequence[R]], None],
        doing: threading.RLock,
        pause: Callable[[float], None],
    ) -> None:
        """Begin without requests.

        do: does each of the requests once, and raises nothing; called with the lock held.
        doing: the lock.
        pause: waits for this many seconds.
        """
        self._do = do
        self._doing = doing
        self._pause = pause
        self._guard = threading.Lock()
        self._waiting: list[R] = []

    def ask(self, request: R) -> None:
        """Return once the request is done."""
        with self._guard:
            self._waiting.append(request)
        with self._doing:
            if request in self.waiting:
                self._pause(TOGETHER_S)
                with self._guard:
                    together, self._waiting = self._waiting, []
                self._do(together)

    @property
    def waiting(self) -> tuple[R, ...]:
        """The requests that nobody has begun to do."""
        with self._guard:
            return tuple(self._waiting)
