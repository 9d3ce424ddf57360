"""Disks of a fixed size that are full for a time: one ballast a disk, shared by all its faults."""

from __future__ import annotations

import threading
from collections.abc import Callable

from highwater.cluster.cluster import Cluster
from highwater.faults.disks.node_files import newest_trace
from highwater.faults.disks.volumes import fill_disk, make_room
from highwater.faults.done import Done, NotDone

_IN_TRACES = b"No space left on device"


class FullDisks:
    """The full disks of one cluster; calls may come from different threads."""

    def __init__(self, cluster: Cluster, may_have_ended: Callable[[int], None]) -> None:
        """may_have_ended: called with each node whose disk is filled: the node may stop."""
        self._cluster = cluster
        self._may_have_ended = may_have_ended
        self._lock = threading.Lock()
        self._lasting: dict[int, int] = {}
        """By node, how many faults keep its disk full; 0: a failed fault may have left ballast."""

    def fill(self, node: int) -> Done:
        """Fill the node's disk; of several such faults the last to be reverted makes room.

        Raises:
            NotDone, APIError: the disk is not full.
        """
        self._may_have_ended(node)
        with self._lock:
            self._lasting.setdefault(node, 0)
            proof = fill_disk(self._cluster, node)
            self._lasting[node] += 1
        met: list[str] = []

        def end() -> str:
            met.append(self._met(node))
            return f"{self._make_room(node)}; {met[-1]}"

        return Done(node, proof, end, later=lambda: "".join(met[:1]))

    def _make_room(self, node: int) -> str:
        with self._lock:
            self._lasting[node] -= 1
            if self._lasting[node] > 0:
                return "filled by another fault still"
            seen = make_room(self._cluster, node)
            del self._lasting[node]
        return seen

    def _met(self, node: int) -> str:
        lines = newest_trace(self._cluster, node)
        count = sum(_IN_TRACES in line for line in lines)
        return f"the node's trace tells of it {count} times"

    def end(self) -> list[str]:
        """Make room on every disk that may have ballast; return the problems."""
        problems = []
        with self._lock:
            for node in tuple(self._lasting):
                try:
                    if self._cluster.has_sized_disk(node):
                        make_room(self._cluster, node)
                    del self._lasting[node]
                except (NotDone, OSError) as error:  # or the engine refuses, or does not answer
                    problems.append(f"the disk of node {node}: {error}")
        return problems
