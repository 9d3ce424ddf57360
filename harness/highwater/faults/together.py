"""Does in one go what several threads ask for at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

TOGETHER_S = 0.1
"""What is asked for within this time, or while something is being done, is done together."""

R = TypeVar("R")


class Together(Generic[R]):
    """Requests that wait; whoever comes first does them for all."""

    def __init__(
        self,
        do: Callable[[Sequence[R]], None],
        doing: threading.RLock,
        pause: Callable[[float], None],
    ) -> None:
        """do: does each of the requests once, and raises nothing; called with the lock held."""
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
        """What was asked for, and is not being done yet."""
        with self._guard:
            return tuple(self._waiting)
