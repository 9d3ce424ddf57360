"""Faults of whole nodes by the engine's plain means: kill, stop, freeze, take off the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from highwater.cluster.cluster import KILLED_EXIT_CODE, STOPPED, Cluster
from highwater.cluster.topology import NodeKind
from highwater.faults.disks.volumes import empty_disk, flip_bit
from highwater.faults.done import Done, Find, NotDone, found, prove
from highwater.faults.processes.crash_loops import CrashLoop
from highwater.faults.processes.stopping import (
    STOPPED_STATE,
    are_stopped,
    process_states,
    resume_processes,
    stop_processes,
)
from highwater.waiting import eventually
from highwater_chaos import faults as f

PROVEN_WITHIN_S = 5.0

NodeFault = f.Kill | f.FlipBit | f.CrashLoop | f.Terminate | f.Pause | f.Isolate


class NodeFaults:
    """The faults of one cluster's nodes; calls for different nodes may come at the same time."""

    def __init__(self, cluster: Cluster, start: Callable[[int], None]) -> None:
        """start: starts a stopped node, with what else that takes."""
        self._cluster = cluster
        self._start = start
        self._lock = threading.Lock()
        self._cut_off: dict[int, None] = {}
        self._ended: dict[int, None] = {}
        """Nodes that were ended here, and perhaps not started since."""
        self._stopped: dict[int, None] = {}
        """Nodes that were stopped here, and have not gone on since."""
        self._goes_on_later: dict[int, None] = {}
        """Of them, those whose stop was to end while the freezer had them."""

    def apply(self, fault: NodeFault, find: Find) -> Done:
        """Do it.

        Raises:
            NotDone, NeverHappened, APIError: it was not, or is not seen to have been.
        """
        node = found(find, fault.node)
        status = self._cluster.status(node)
        if status != "running":
            raise NotDone(f"node {node} is {status}")
        match fault:
            case f.Kill() | f.FlipBit():
                return self._end(node, fault)
            case f.CrashLoop():
                return self._crash_again_and_again(node, fault)
            case f.Terminate():
                self._ended[node] = None
                code = self._cluster.terminate(node)
                return Done(node, f"exit code {code}", lambda: self.start(node))
            case f.Pause(by=f.PauseBy.SIGSTOP):
                return self._stop(node)
            case f.Pause():
                return self._pause(node)
            case f.Isolate():
                return self._isolate(node)

    # ------------------------------------------------------------ ends

    def _end(self, node: int, fault: f.Kill | f.FlipBit) -> Done:
        if isinstance(fault, f.FlipBit):
            is_broker = self._cluster.topology.node(node).kind is NodeKind.BROKER
            prove(is_broker, f"node {node} is no broker, and has no such files")
        proof = self._kill(node)
        match fault:
            case f.FlipBit(file=kind):
                proof += f", {flip_bit(self._cluster, node, kind)}"
            case f.Kill(disk=f.DiskAtStart.EMPTY):
                proof += f", {empty_disk(self._cluster, node)}"
            case _:
                pass
        return Done(node, proof, lambda: self.start(node))

    def _kill(self, node: int) -> str:
        self._ended[node] = None
        self._cluster.kill(node)
        code = self._cluster.exit_code(node)
        prove(code == KILLED_EXIT_CODE, f"node {node} ended with {code}, not of SIGKILL")
        return f"exit code {code}"

    def _crash_again_and_again(self, node: int, fault: f.CrashLoop) -> Done:
        def kill() -> None:
            status = self._cluster.status(node)
            prove(status == "running", f"node {node} is {status}, before it was killed again")
            self._kill(node)

        proof = f"{self._kill(node)}, the first of {fault.times} times"
        loop = CrashLoop(fault.times, fault.every_ms / 1000, kill, lambda: self._start(node))
        loop.begin()

        def end() -> str:
            told = loop.end()
            return f"{told}; {self.start(node)}"

        return Done(node, proof, end, later=loop.told, has_acted=loop.has_looped)

    # ------------------------------------------------------------ stands still

    def _pause(self, node: int) -> Done:
        self._cluster.pause(node)
        status = self._cluster.status(node)
        prove(status == "paused", f"node {node} is {status}, not paused")
        return Done(node, status, lambda: self.unpause(node))

    def _stop(self, node: int) -> Done:
        prove(not are_stopped(self._states(node)), f"node {node} is stopped already")
        self._stopped[node] = None
        stop_processes(self._cluster.engine, self._cluster.container_name(node))
        acted_ns = time.monotonic_ns()
        states = eventually(
            lambda: seen if are_stopped(seen := self._states(node)) else None,
            within=PROVEN_WITHIN_S,
            what=f"the processes of node {node} are stopped",
            state=lambda: self._states(node),
        )
        proof = f"{len(states)} processes in state {STOPPED_STATE}"
        return Done(node, proof, lambda: self.go_on(node), acted_ns)

    def _states(self, node: int) -> tuple[str, ...]:
        return process_states(self._cluster.engine, self._cluster.container_name(node))

    def _isolate(self, node: int) -> Done:
        self._cluster.cut_off(node)
        with self._lock:
            self._cut_off[node] = None
        eventually(
            lambda: self._cluster.try_snapshot(node) is None,
            within=PROVEN_WITHIN_S,
            what=f"node {node} is out of reach",
        )
        return Done(node, "out of reach", lambda: self.rejoin(node))

    # ------------------------------------------------------------ the ways back

    def start(self, node: int) -> str:
        if self._cluster.status(node) in STOPPED:
            self._start(node)
        return self._cluster.status(node)

    def ways_back(self) -> tuple[Callable[[], str], ...]:
        """Return what lets go on whom faults stopped, then what starts whom they ended, one for
        each node; also where the fault was not proven."""
        go_on = (partial(self.go_on, node) for node in tuple(self._stopped))
        start = (partial(self.start, node) for node in tuple(self._ended))
        return (*go_on, *start)

    def may_have_ended(self, node: int) -> None:
        """Have a way back start the node if it does not run then."""
        self._ended[node] = None

    def unpause(self, node: int) -> str:
        if self._cluster.status(node) == "paused":
            self._cluster.unpause(node)
        if node in self._goes_on_later:
            self.go_on(node)
        return self._cluster.status(node)

    def go_on(self, node: int) -> str:
        """Let the processes of a stopped node go on; of a frozen one, once it is unpaused."""
        status = self._cluster.status(node)
        if status == "paused":
            self._goes_on_later[node] = None
            return "paused by another fault; its processes go on after it"
        self._goes_on_later.pop(node, None)
        self._stopped.pop(node, None)
        if status != "running":
            return status
        resume_processes(self._cluster.engine, self._cluster.container_name(node))
        states = eventually(
            lambda: seen if STOPPED_STATE not in (seen := self._states(node)) else None,
            within=PROVEN_WITHIN_S,
            what=f"the processes of node {node} go on",
            state=lambda: self._states(node),
        )
        return f"{len(states)} processes, none in state {STOPPED_STATE}"

    def rejoin(self, node: int) -> str:
        with self._lock:
            if node not in self._cut_off:
                return "connected before"
            del self._cut_off[node]
        self._cluster.rejoin(node)
        return "connected"
