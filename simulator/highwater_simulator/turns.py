"""Draws the order of actions that are due at one instant, instead of first come, first served.

It explores the orders that equal deadlines of different nodes could have had. Actions of one
owner (a node, a pipe) stay in their order; those without one count as one owner's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from highwater_core.ports import Rng

Action = Callable[[], None]


class DrawnTurns:
    """Actions by owner; draws nothing while only one owner has actions."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._waiting: dict[object, deque[Action]] = {}
        self._owners: list[object] = []
        """The owners with actions, in the order of their first one."""

    def add(self, owner: object, action: Action) -> None:
        waiting = self._waiting.get(owner)
        if waiting is None:
            waiting = self._waiting[owner] = deque()
            self._owners.append(owner)
        waiting.append(action)

    def take(self) -> Action | None:
        """Remove and return the next action, None when there is none."""
        owners = self._owners
        if not owners:
            return None
        index = self._rng.randrange(0, len(owners)) if len(owners) > 1 else 0
        waiting = self._waiting[owners[index]]
        action = waiting.popleft()
        if not waiting:
            del self._waiting[owners.pop(index)]
        return action

    def clear(self) -> None:
        self._waiting.clear()
        self._owners.clear()
