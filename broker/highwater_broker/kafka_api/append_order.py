"""Keeps a partition's produces in their order when a large one appends in several turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from highwater_core.ids import TopicPartition
from highwater_core.runtime import Event, Runtime


class AppendOrder:
    """Which partitions are still to be appended to by requests that came already.

    Ordering: of two requests that name one partition the first has appended all that it will
    before the second begins. Each waits for earlier ones only, so that no two wait for each other.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._last: dict[TopicPartition, Event] = {}
        """By partition the last request that is not done: its event is set then."""

    def is_free(self, keys: Sequence[TopicPartition]) -> bool:
        """Return whether nobody has to be waited for."""
        return not self._last or not any(key in self._last for key in keys)

    async def append(
        self, keys: Sequence[TopicPartition], append: Callable[[], Awaitable[None]]
    ) -> None:
        """Run append once all earlier requests for these partitions are done."""
        earlier = dict.fromkeys(self._last[key] for key in keys if key in self._last)
        done = self._runtime.event()
        self._last.update(dict.fromkeys(keys, done))
        try:
            for event in earlier:
                await event.wait()
            await append()
        finally:
            done.set()
            for key in keys:
                if self._last.get(key) is done:
                    del self._last[key]
