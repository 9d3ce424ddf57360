"""How long each connection of a listener may keep the event loop, in one pass of it."""

from __future__ import annotations

from collections.abc import Callable

TURN_S = 0.005
"""Of one connection alone, or of all that are busy in a pass."""
FEW = 8
"""So many connections share nothing: in one pass they keep the loop for 40 ms at most."""


class SharedTurn:
    """Gives each connection that is busy in a pass of the loop a share, the less the more they are.

    What others wait for thus rests on how long one request of each takes, not on how many requests
    hundreds of connections send at once.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """call_soon: asyncio's, which calls in the loop's next pass."""
        self._call_soon = call_soon
        self._busy = 0
        self._last_busy = 0

    def share_s(self, connection_count: int) -> float:
        """Return how long the connection that asks may go on; it may always start one request."""
        if connection_count <= FEW:
            return TURN_S
        if not self._busy:
            self._call_soon(self._end_pass)
        self._busy += 1
        return TURN_S / max(self._busy, self._last_busy)

    def _end_pass(self) -> None:
        self._last_busy, self._busy = self._busy, 0
