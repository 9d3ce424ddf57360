"""Faults that last, on one target at once: the one that began last counts, as long as it lasts."""

from __future__ import annotations

from collections.abc import Callable, Hashable

Revert = Callable[[], None]


class Overlaps:
    """What is at work on each target, oldest first.

    When the one that counts ends, the one that began before it counts again, with its own value;
    the target is well once the last has ended, in whatever order they do.
    """

    def __init__(self) -> None:
        self._at_work: dict[Hashable, dict[object, Callable[[], object]]] = {}

    def begin(
        self, target: Hashable, do: Callable[[], object], undo: Callable[[], object]
    ) -> Revert:
        """Do it to the target and return how it ends; ending it twice, or after clear, is no-op."""
        mine = object()
        self._at_work.setdefault(target, {})[mine] = do
        do()

        def end() -> None:
            others = self._at_work.get(target, {})
            if others.pop(mine, None) is None:
                return
            if others:
                next(reversed(others.values()))()
            else:
                del self._at_work[target]
                undo()

        return end

    def clear(self) -> None:
        """Forget all; the targets are healed by other means."""
        self._at_work.clear()
