"""Lets requests with much to do take turns, so that nobody waits for the whole of one."""

from __future__ import annotations

from collections import deque

from highwater_core.runtime import Event, Runtime


class Turns:
    """Gives each turn, a step of about a millisecond, to whoever has asked for one longest.

    Ordering: turns come in the order in which they were asked for, one in each pass of the event
    loop. So a request that takes none waits for one step, however many take them.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: deque[Event] = deque()
        self._is_taken = False

    async def next(self) -> None:
        """Return when it is the caller's turn: until its next await."""
        if self._is_taken:
            await self._wait()
        self._is_taken = True
        try:
            await self._runtime.sleep(0)  # the pass of the loop that this turn has to itself
        finally:
            self._hand_over()

    async def _wait(self) -> None:
        called = self._runtime.event()
        self._waiting.append(called)
        is_our_turn = False
        try:
            is_our_turn = await called.wait()
        finally:
            if not is_our_turn:  # cancelled
                if called.is_set():
                    self._hand_over()
                else:
                    self._waiting.remove(called)

    def _hand_over(self) -> None:
        """Call the next one, to whom the turn then belongs."""
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._is_taken = False
