"""Lasting faults that overlap on one target: the one that began last acts."""

from __future__ import annotations

from collections.abc import Callable, Hashable

Revert = Callable[[], None]


class Overlaps:
    """The faults that act on each target, oldest first.

    When it ends, the one that began before it acts again, with its own value. The target is healed
    once all have ended, in any order.
    """

    def __init__(self) -> None:
        self._at_work: dict[Hashable, dict[object, Callable[[], object]]] = {}

    def begin(
        self, target: Hashable, do: Callable[[], object], undo: Callable[[], object]
    ) -> Revert:
        """Do the fault to the target and return its undo, which may be repeated."""
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
        """Forget all faults; the targets are healed by other means."""
        self._at_work.clear()
