"""Does to containers what a plan's steps say, proves that it was done, and takes it back."""

from __future__ import annotations

from collections.abc import Callable

from docker.errors import APIError

from highwater.cluster import Cluster
from highwater.eventually import NeverHappened, eventually
from highwater_chaos import faults as f

KILLED_EXIT_CODE = 137
PROVEN_WITHIN_S = 5.0

Revert = Callable[[], None]


class NotDone(Exception):
    """The fault could not be done now, or it is not seen to have been; the message says why."""


class ContainerFaults:
    """The faults of one run; calls for different nodes may come from different threads."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._cut_off: dict[int, None] = {}

    def apply(self, fault: f.Fault, node: int) -> Revert:
        """Do it, and return how it is taken back.

        Raises:
            NotDone: it was not.
        """
        if self._cluster.status(node) != "running":
            raise NotDone(f"node {node} is {self._cluster.status(node)}")
        try:
            return self._apply(fault, node)
        except (APIError, NeverHappened) as error:
            raise NotDone(f"node {node}: {error}") from error

    def _apply(self, fault: f.Fault, node: int) -> Revert:
        cluster = self._cluster
        match fault:
            case f.Kill():
                cluster.kill(node)
                code = cluster.exit_code(node)
                _prove(code == KILLED_EXIT_CODE, f"node {node} ended with {code}, not of SIGKILL")
                return lambda: self._start(node)
            case f.Terminate():
                cluster.terminate(node)
                return lambda: self._start(node)
            case f.Pause():
                cluster.pause(node)
                status = cluster.status(node)
                _prove(status == "paused", f"node {node} is {status}, not paused")
                return lambda: self._unpause(node)
            case f.Isolate():
                cluster.cut_off(node)
                self._cut_off[node] = None
                eventually(
                    lambda: cluster.try_snapshot(node) is None,
                    within=PROVEN_WITHIN_S,
                    what=f"node {node} is out of reach",
                )
                return lambda: self._rejoin(node)
            case _:
                raise NotDone(f"containers cannot do it: {f.fault_name(fault)}")

    def heal_all(self) -> None:
        """Have every node run, connected."""
        for node in tuple(self._cut_off):
            self._rejoin(node)
        for node in self._cluster.node_ids:
            self._unpause(node)
            self._start(node)

    def _start(self, node: int) -> None:
        if self._cluster.status(node) in ("exited", "created"):
            self._cluster.start_node(node)

    def _unpause(self, node: int) -> None:
        if self._cluster.status(node) == "paused":
            self._cluster.unpause(node)

    def _rejoin(self, node: int) -> None:
        if self._cut_off.pop(node, self) is None:
            self._cluster.rejoin(node)


def _prove(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise NotDone(otherwise)
