"""How long syncs take on a node's disk, and which of them are given up: the ports' bound_syncs."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from highwater_core.runtime import Event
from highwater_simulator.disk import Disk
from highwater_simulator.tasks import NodeRuntime

_NS_PER_MS = 1_000_000


@dataclass(slots=True)
class _Bound:
    timeout_ms: int
    hangs: Callable[[], None]
    has_hung: Event

    def allows(self, duration_ns: int) -> bool:
        return duration_ns <= self.timeout_ms * _NS_PER_MS and not self.has_hung.is_set()


class BoundedSyncs:
    """The waits of one incarnation for its disk."""

    def __init__(self, runtime: NodeRuntime, disk: Disk) -> None:
        self._runtime = runtime
        self._disk = disk
        self._bounds: dict[str, _Bound] = {}

    def bound(self, folder: str, timeout_ms: int, hangs: Callable[[], None]) -> None:
        self._bounds[folder] = _Bound(timeout_ms, hangs, self._runtime.event())

    async def wait(self, path: str) -> None:
        """Return once a sync of the path that begins now is done.

        Raises:
            OSError: ETIMEDOUT.
        """
        duration_ns = self._disk.sync_duration_ns()
        bound = self._bounds.get(path.partition("/")[0]) or self._bounds.get("")
        if not self._disk.is_hanging(path) and (bound is None or bound.allows(duration_ns)):
            await self._runtime.sleep_ns(duration_ns)
        elif bound is None:
            await self._runtime.event().wait()
        else:
            await bound.has_hung.wait(bound.timeout_ms)
            if not bound.has_hung.is_set():
                bound.hangs()
                bound.has_hung.set()
            raise OSError(errno.ETIMEDOUT, "a sync did not return", path)
