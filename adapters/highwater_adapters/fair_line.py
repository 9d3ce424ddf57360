"""Which of a listener's busy connections go on in a pass of the event loop.

What others wait for thus rests neither on how many requests one connection sends at once, nor on
how many connections do. Who has just received a request goes before those who have more than fits.
Of the latter goes on who was served for the least time, among them. Sources: the fair queueing of
routers (FQ-CoDel, RFC 8290, sections 4.1 and 4.2), with time in place of bytes; start-time fair
queueing (Goyal and others, SIGCOMM 1996), whose tags served_s is.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

TURN_S = 0.005
"""How long one of few connections may go on when it has received something."""
PASS_S = 0.005
"""How long all of a crowd together may go on in one pass of the loop; the last one ends a request
that it has begun."""
FEW = 8
"""So many connections are no crowd: in one pass they keep the loop for 40 ms at most."""
_MOST_TAKEN = 100
"""Of requests that were taken, so many may stay in the heap by size, besides as many as wait."""


class Runner(Protocol):
    """A connection.

    served_s: its tag, the seconds for which it has gone on in this line. It is at least the highest
    tag with which another had gone on when the connection joined. Time served outside the line, or
    in its turn as a beginner, is not in it.
    """

    served_s: float

    def go_on(self, ends_at: float) -> None:
        """Start one request at least, and more until then; tell `spend`, and join again at need."""
        ...


class FairLine:
    """Connections with requests that have to wait for a pass of the loop.

    Ordering: half of a pass belongs to those who have just received a request. The smallest request
    and the oldest one have their turns by turns: neither keeps the other waiting for good. The rest
    of the pass belongs to the others, by the time for which they have been served. What one half
    leaves is the other's. Of equals goes who joined first.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], now_s: Callable[[], float]
    ) -> None:
        """call_soon: asyncio's, which calls in the loop's next pass; now_s: the loop's clock."""
        self._call_soon = call_soon
        self._now_s = now_s
        self._numbers = count()
        self._beginning: dict[int, Runner] = {}
        """By number. Those who were taken stay in the next two until they are met there."""
        self._by_size: list[tuple[int, int]] = []
        self._by_age: deque[int] = deque()
        self._oldest_is_next = False
        self._going_on: list[tuple[float, int, Runner]] = []
        self._spent_s = 0.0
        self._served_s = 0.0
        """The highest tag with which a runner has gone on."""
        self._goes_on: Runner | None = None
        self._pass_is_due = False

    def left_s(self, connection_count: int) -> float:
        """Return how long one that has received something may go on now; 0: it has to join."""
        if connection_count <= FEW:
            return TURN_S
        self._begin_soon()
        return max(0.0, PASS_S - self._spent_s)

    def spend(self, runner: Runner, duration_s: float) -> None:
        """Count the time for which the runner kept the loop: in this pass, and in its tag if it was
        going on."""
        if runner is self._goes_on:
            runner.served_s += duration_s
        self._spent_s += duration_s

    def begin(self, runner: Runner, size_bytes: int) -> None:
        """Have one go on in a later pass that has just received a request of that size."""
        number = next(self._numbers)
        self._beginning[number] = runner
        self._by_age.append(number)
        heapq.heappush(self._by_size, (size_bytes, number))
        self._begin_soon()

    def join(self, runner: Runner) -> None:
        """Have one go on in a later pass that has more than it could start in this one.

        However long it was idle, it counts as served like those who go on.
        """
        runner.served_s = max(runner.served_s, self._served_s)
        heapq.heappush(self._going_on, (runner.served_s, next(self._numbers), runner))
        self._begin_soon()

    def _begin_soon(self) -> None:
        if not self._pass_is_due:
            self._pass_is_due = True
            self._call_soon(self._begin_pass)

    def _begin_pass(self) -> None:
        self._pass_is_due = False
        self._spent_s = 0.0
        try:
            self._run_beginning(PASS_S / 2)
            self._run_going_on()
            self._run_beginning(PASS_S)
        finally:  # whatever one runner meets, the others go on
            if self._beginning or self._going_on:
                self._begin_soon()

    def _run_beginning(self, until_s: float) -> None:
        while self._beginning and self._spent_s < until_s:
            runner = self._beginning.pop(self._next_beginning())
            runner.go_on(self._now_s())  # one request: what is left of it is no beginning

    def _next_beginning(self) -> int:
        takes_oldest, self._oldest_is_next = self._oldest_is_next, not self._oldest_is_next
        if len(self._by_size) > 2 * len(self._beginning) + _MOST_TAKEN:
            self._by_size = [each for each in self._by_size if each[1] in self._beginning]
            heapq.heapify(self._by_size)
        while True:
            number = self._by_age.popleft() if takes_oldest else heapq.heappop(self._by_size)[1]
            if number in self._beginning:
                return number

    def _run_going_on(self) -> None:
        while self._going_on and self._spent_s < PASS_S:
            served_s, _, runner = heapq.heappop(self._going_on)
            self._served_s = max(self._served_s, served_s)
            self._goes_on = runner
            try:
                runner.go_on(self._now_s() + PASS_S - self._spent_s)
            finally:
                self._goes_on = None
