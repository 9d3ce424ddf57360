"""Traces what others wrote into ZooKeeper and no broker would, once for each time it is written."""

from __future__ import annotations

from highwater_core.events import EventKind
from highwater_core.ports import Trace

MOST = 1_000
"""Paths that are remembered; the oldest are forgotten first."""


class ToldOnce:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._told: dict[str, tuple[int, str]] = {}

    def tell(self, path: str, what: str, mzxid: int = -1) -> None:
        """Trace what is wrong with a znode, unless that was traced since the znode was written."""
        if self._told.pop(path, None) != (mzxid, what):
            self._trace.emit(EventKind.BAD_INPUT_MET, where=path[:300], what=what[:300])
        if len(self._told) >= MOST:
            del self._told[next(iter(self._told))]
        self._told[path] = mzxid, what
