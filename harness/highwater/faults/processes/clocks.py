"""Moves nodes' wall clocks, and proves it by what the nodes themselves read."""

from __future__ import annotations

import tarfile
import threading
import time
from collections.abc import Callable

from docker.errors import NotFound

from highwater.cluster.clocks import MOVABLE_CLOCK, OFFSET
from highwater.cluster.cluster import Cluster
from highwater.cluster.container_files import put_file
from highwater.cluster.disks import DATA_FOLDER
from highwater.faults.disks.node_files import read_node_file
from highwater.faults.done import Done, prove
from highwater.waiting import NeverHappened, eventually

READ_WITHIN_S = 10.0
"""The library reads the file again once a second."""
TOLERANCE_MS = 20
"""A node reads two clocks one after the other, and may have to wait for the processor between."""
LEAST_JUMP_MS = 2 * TOLERANCE_MS
TOO_SMALL = f"a jump of less than {LEAST_JUMP_MS} ms cannot be told from a busy machine"
RIGHT = b"+0.000"
STANDS_STILL = "the node reads its clock when it runs"
CLOCK_RIGHT = "its clock is right"
_MOVED_BY = "clock_moved_by_ms"


def has_movable_clock(cluster: Cluster, node: int) -> bool:
    """Return whether the node's wall clock can be moved."""
    about = cluster.engine.api.inspect_container(cluster.container_name(node))
    return MOVABLE_CLOCK in (about["Config"]["Cmd"] or ())


class Clocks:
    """The wall clocks of one cluster's nodes; calls may come from different threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._moved_by_ms: dict[int, int] = {}

    def jump(self, node: int, by_ms: int) -> Done:
        """Move the node's clock; jumps add up, and each is undone for itself.

        Raises:
            NotDone, NeverHappened, APIError: the node is not seen to read the moved clock.
        """
        own = has_movable_clock(self._cluster, node)
        prove(own, f"the clock of node {node} is the machine's: the run was begun without others")
        is_up = self._cluster.status(node) == "running"
        prove(is_up, f"node {node} is {self._cluster.status(node)}: nothing reads its clock")
        self._move(node, by_ms)
        try:
            seen = self._proof(node)
            prove(seen != STANDS_STILL, f"node {node} went down before it read its clock")
        except BaseException:
            self._move(node, -by_ms)
            raise
        return Done(node, seen, lambda: self._move_back(node, by_ms), acted_ns=time.monotonic_ns())

    def _move_back(self, node: int, by_ms: int) -> str:
        self._move(node, -by_ms)
        return self._proof(node)

    def _move(self, node: int, by_ms: int) -> None:
        """Write the sum of the node's jumps. Noted once it is written: `end` undoes what is not."""
        with self._lock:
            moved_by_ms = self._moved_by_ms.get(node, 0) + by_ms
            set_clock(self._cluster, node, moved_by_ms)
            self._moved_by_ms[node] = moved_by_ms

    def _proof(self, node: int) -> str:
        return prove_clock(self._cluster, node, lambda: self._moved_by_ms[node])

    def end(self) -> list[str]:
        """Set all clocks right that are still moved; return the problems."""
        problems = []
        with self._lock:
            for node, moved_by_ms in tuple(self._moved_by_ms.items()):
                try:
                    if moved_by_ms:
                        set_clock(self._cluster, node, 0)
                        prove_clock(self._cluster, node)
                    del self._moved_by_ms[node]
                except (NeverHappened, OSError) as error:
                    problems.append(f"the clock of node {node}: {error}")
        return problems


def set_clock(cluster: Cluster, node: int, moved_by_ms: int) -> None:
    """Write how far the node's clock is to be moved; a node that is down reads it when it starts.

    Raises:
        APIError: the engine refused.
    """
    entry = tarfile.TarInfo(OFFSET)
    entry.mode = 0o644
    content = f"{moved_by_ms / 1000:+.3f}".encode() if moved_by_ms else RIGHT
    put_file(cluster.engine, cluster.container_name(node), DATA_FOLDER, entry, content)


def prove_clock(cluster: Cluster, node: int, moved_by_ms: Callable[[], int] = lambda: 0) -> str:
    """Return in words that the node reads the moved clock, or STANDS_STILL.

    moved_by_ms: returns how far it is moved now; another jump may come in between.

    Raises:
        NeverHappened: it answers, and reads another clock.
    """
    if cluster.status(node) != "running":
        return STANDS_STILL

    def told() -> int | None:
        snapshot = cluster.try_snapshot(node)
        return None if snapshot is None else dict(snapshot.counters).get(_MOVED_BY)

    def is_there() -> str:
        seen, wanted_ms = told(), moved_by_ms()
        if seen is None or abs(seen - wanted_ms) > TOLERANCE_MS:
            return "" if cluster.status(node) == "running" else STANDS_STILL
        return f"the node's clock is {seen:+} ms from the machine's" if wanted_ms else CLOCK_RIGHT

    seen: str = eventually(
        is_there,
        within=READ_WITHIN_S,
        what=f"node {node} reads a clock that is {moved_by_ms():+} ms from the machine's",
        state=told,
    )
    return seen


def is_moved(cluster: Cluster, node: int) -> bool:
    """Return whether something of ours has moved the node's clock.

    Raises:
        APIError: the engine refused.
    """
    try:
        return read_node_file(cluster, node, OFFSET).strip() != RIGHT
    except NotFound:
        return False
