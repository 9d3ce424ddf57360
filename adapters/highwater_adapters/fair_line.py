"""Decides which of a listener's busy connections run in a pass of the event loop.

So a request's wait depends neither on the number of requests that another connection sends at once,
nor on the number of such connections. Connections that have just received a request go first. Among
connections with more requests than fit into their turn, the one that was served for the least time
goes first. Sources: the fair queueing of routers (FQ-CoDel, RFC 8290, sections 4.1 and 4.2), with
time in place of bytes; start-time fair queueing (Goyal and others, SIGCOMM 1996), whose tag is
served_s.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Protocol

TURN_S = 0.005
"""How long one of few connections may run when it has received bytes."""
PASS_S = 0.005
"""How long many connections together may run in one pass of the loop; the last one ends its begun
request."""
FEW = 8
"""Up to so many connections run without the line: in one pass they take 40 ms at most."""
_MOST_TAKEN = 100
"""Most taken requests that stay in the heap by size, beyond the number that waits."""


class Runner(Protocol):
    """A connection.

    served_s: its tag, the seconds for which it has run in this line. At joining it is raised to the
    highest tag with which another connection has run. Time outside the line, or in its turn for a
    new request, does not count.
    """

    served_s: float

    def go_on(self, ends_at: float) -> None:
        """Start one request, and more until then; call `spend`, and join again if needed."""
        ...


class FairLine:
    """Connections with requests that have to wait for a pass of the loop.

    Ordering: half of a pass belongs to connections that have just received a request. The smallest
    request and the oldest one alternate, so that neither waits for ever. The other half belongs to
    the other connections, by the time for which they have been served. Time that one half does not
    use goes to the other. Among equals the one that joined first goes first.
    """

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], now_s: Callable[[], float]
    ) -> None:
        """call_soon: asyncio's, which calls in the loop's next pass; now_s: the loop's clock."""
        self._call_soon = call_soon
        self._now_s = now_s
        self._numbers = count()
        self._beginning: dict[int, Runner] = {}
        """By number. Taken ones stay in the next two until they come up there."""
        self._by_size: list[tuple[int, int]] = []
        self._by_age: deque[int] = deque()
        self._oldest_is_next = False
        self._going_on: list[tuple[float, int, Runner]] = []
        self._spent_s = 0.0
        self._served_s = 0.0
        """The highest tag with which a runner has run."""
        self._goes_on: Runner | None = None
        self._pass_is_due = False

    def left_s(self, connection_count: int) -> float:
        """Return how long a connection that has received bytes may run now; 0: it has to join."""
        if connection_count <= FEW:
            return TURN_S
        self._begin_soon()
        return max(0.0, PASS_S - self._spent_s)

    def spend(self, runner: Runner, duration_s: float) -> None:
        """Count the runner's time in this pass, and in its tag if it ran from the line."""
        if runner is self._goes_on:
            runner.served_s += duration_s
        self._spent_s += duration_s

    def begin(self, runner: Runner, size_bytes: int) -> None:
        """Schedule a connection that has just received a request of that size for a later pass."""
        number = next(self._numbers)
        self._beginning[number] = runner
        self._by_age.append(number)
        heapq.heappush(self._by_size, (size_bytes, number))
        self._begin_soon()

    def join(self, runner: Runner) -> None:
        """Schedule a connection that could not start all its requests in this pass.

        Idle time is no credit: it counts as served like the running ones.
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
        finally:  # an error of one runner must not stop the others
            if self._beginning or self._going_on:
                self._begin_soon()

    def _run_beginning(self, until_s: float) -> None:
        while self._beginning and self._spent_s < until_s:
            runner = self._beginning.pop(self._next_beginning())
            runner.go_on(self._now_s())  # one request: the rest does not count as new

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
