"""Keeps a partition's produces in order when a large one appends in several turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from highwater_core.ids import TopicPartition
from highwater_core.runtime import Event, Runtime


class _Place:
    """One request's place: the request before it, by partition, until its turn has come.

    A request that leaves before its turn keeps them, so that a request that waits for it then waits
    for those.
    """

    __slots__ = ("earlier", "left")

    def __init__(self, earlier: dict[TopicPartition, _Place], left: Event) -> None:
        self.earlier = earlier
        self.left = left
        """Set when it will append no more."""

    def next_before(self, key: TopicPartition) -> _Place | None:
        """Return the last earlier request that may still append to the partition."""
        place = self.earlier.get(key)
        while place is not None and place.left.is_set():
            place = place.earlier.get(key)
        return place


class AppendOrder:
    """The partitions of requests that have not appended yet.

    Ordering: of two requests for one partition the first has finished appending before the second
    begins. Each waits for earlier ones only, so that no two wait for each other.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._last: dict[TopicPartition, _Place] = {}
        """By partition: the last request that may still append to it."""

    def is_free(self, keys: Sequence[TopicPartition]) -> bool:
        """Return whether there is no earlier request for these partitions."""
        return not self._last or not any(key in self._last for key in keys)

    async def append(
        self, keys: Sequence[TopicPartition], append: Callable[[], Awaitable[None]]
    ) -> None:
        """Run append once all earlier requests for these partitions are done."""
        earlier = {key: self._last[key] for key in keys if key in self._last}
        place = _Place(earlier, self._runtime.event())
        self._last.update(dict.fromkeys(keys, place))
        try:
            for key in earlier:
                while (before := place.next_before(key)) is not None:
                    await before.left.wait()
            place.earlier = {}
            await append()
        finally:
            self._leave(keys, place)

    def _leave(self, keys: Sequence[TopicPartition], place: _Place) -> None:
        """Replace the request by the earlier ones for which it did not wait to the end."""
        remaining = {key: place.next_before(key) for key in place.earlier}
        place.earlier = {key: before for key, before in remaining.items() if before is not None}
        place.left.set()
        for key in keys:
            if self._last.get(key) is not place:
                continue
            if key in place.earlier:
                self._last[key] = place.earlier[key]
            else:
                del self._last[key]
