"""Faults of whole nodes by the engine's plain means: kill, stop, freeze, take off the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from highwater.cluster.cluster import KILLED_EXIT_CODE, STOPPED, Cluster
from highwater.cluster.topology import NodeKind
from highwater.errors import HarnessError
from highwater.faults.disks.faulty_disks import lose_unsynced
from highwater.faults.disks.node_files import newest_trace
from highwater.faults.disks.volumes import close_folder, empty_disk, flip_bit, reopen_folder
from highwater.faults.done import Done, Find, NotDone, found, prove
from highwater.faults.processes.crash_loops import CrashLoop
from highwater.faults.stopping import (
    STOPPED_STATE,
    are_stopped,
    process_states,
    resume_processes,
    stop_processes,
)
from highwater.waiting import eventually
from highwater_chaos import faults as f
from highwater_core.events import EventKind
from highwater_core.traces import decode_events

PROVEN_WITHIN_S = 5.0
_STAYS = "it runs this image to the end"


class NodeFaults:
    """The faults of one cluster's nodes; calls for different nodes may come at the same time.

    Every fault raises NotDone when the node does not run or the fault is not seen to act,
    NeverHappened when its proof takes too long, and APIError when the engine refuses.
    """

    def __init__(self, cluster: Cluster, start: Callable[[int], None]) -> None:
        """start: starts a stopped node, and loads its links' rules and fail-points."""
        self._cluster = cluster
        self._start = start
        self._lock = threading.Lock()
        self._cut_off: dict[int, None] = {}
        self._ended: dict[int, None] = {}
        """Nodes that a fault ended, and that were perhaps not started since."""
        self._stopped: dict[int, None] = {}
        """Nodes whose processes a fault stopped, and that have not gone on since."""
        self._goes_on_later: dict[int, None] = {}
        """The stopped nodes whose stop was reverted while they were frozen."""

    # ------------------------------------------------------------ ends

    def kill(self, fault: f.Kill, find: Find) -> Done:
        """End the node with SIGKILL, and empty its disk if the fault says so."""
        node = self._running(fault.node, find)
        proof = self._kill(node)
        if fault.disk is f.DiskAtStart.EMPTY:
            proof += f", {empty_disk(self._cluster, node)}"
        return Done(node, proof, lambda: self.start(node))

    def lose_power(self, fault: f.PowerLoss, find: Find) -> Done:
        """End the node with SIGKILL; a broker's disk loses what was not synced."""
        node = self._running(fault.node, find)
        proof = self._kill(node)
        if self._cluster.topology.node(node).kind is NodeKind.BROKER:
            proof += f", {lose_unsynced(self._cluster, node)}"
        return Done(node, proof, lambda: self.start(node))

    def flip_bit(self, fault: f.FlipBit, find: Find) -> Done:
        """End the broker with SIGKILL, and flip a bit of one of its files."""
        node = self._running(fault.node, find)
        is_broker = self._cluster.topology.node(node).kind is NodeKind.BROKER
        prove(is_broker, f"node {node} is no broker, and has no such files")
        proof = f"{self._kill(node)}, {flip_bit(self._cluster, node, fault.file)}"
        return Done(node, proof, lambda: self.start(node))

    def fail_folder(self, fault: f.FailFolder, find: Find) -> Done:
        """Close the broker's log folder; it acts once the broker has traced the failure."""
        node = self._running(fault.node, find)
        is_broker = self._cluster.topology.node(node).kind is NodeKind.BROKER
        prove(is_broker, f"node {node} is no broker, and has no log folder")
        self._ended[node] = None
        folder = "" if fault.folder is None else self._cluster.topology.log_folders[fault.folder]
        proof = close_folder(self._cluster, node, folder)
        met: list[bytes] = []
        """The broker's events of the failure, before its next start."""

        def has_met() -> bool:
            lines = () if met else newest_trace(self._cluster, node)
            met.extend(line for line in lines if _tells_of_failure(line, folder))
            return bool(met)

        def mend() -> str:
            said = "the broker has met it" if has_met() else "the broker has not met it"
            if self._cluster.status(node) == "running":
                self._kill(node)
            return f"{said}; {reopen_folder(self._cluster, node, folder)}; {self.start(node)}"

        return Done(node, proof, mend, has_acted=has_met)

    def terminate(self, fault: f.Terminate, find: Find) -> Done:
        """Ask the node to stop."""
        node = self._running(fault.node, find)
        self._ended[node] = None
        code = self._cluster.terminate(node)
        return Done(node, f"exit code {code}", lambda: self.start(node))

    def upgrade(self, fault: f.Upgrade, find: Find) -> Done:
        """Have the node run another image; it runs its old one again if it does not come up."""
        node = self._running(fault.node, find)
        self._ended[node] = None
        begun_ns = time.monotonic_ns()
        try:
            done = self._cluster.upgrade(node, fault.image, fault.preset, start=self._start)
        except HarnessError as error:
            raise NotDone(str(error)) from error
        return Done(node, f"{done.before} -> {done.after}: {done.proof}", lambda: _STAYS, begun_ns)

    def _running(self, words: str, find: Find) -> int:
        """Return the node that the words mean now.

        Raises:
            NotDone: they mean no node, or it does not run.
        """
        node = found(find, words)
        status = self._cluster.status(node)
        prove(status == "running", f"node {node} is {status}")
        return node

    def _kill(self, node: int) -> str:
        self._ended[node] = None
        self._cluster.kill(node)
        code = self._cluster.exit_code(node)
        prove(code == KILLED_EXIT_CODE, f"node {node} ended with {code}, not of SIGKILL")
        return f"exit code {code}"

    def crash_again_and_again(self, fault: f.CrashLoop, find: Find) -> Done:
        """End the node with SIGKILL, and again each time it was started."""
        node = self._running(fault.node, find)

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

        return Done(node, proof, end, later=loop.kills_in_words, has_acted=loop.has_looped)

    # ------------------------------------------------------------ stands still

    def pause(self, fault: f.Pause, find: Find) -> Done:
        """Have the node's processes stand still, by the freezer or by SIGSTOP."""
        node = self._running(fault.node, find)
        return self._stop(node) if fault.by is f.PauseBy.SIGSTOP else self._freeze(node)

    def _freeze(self, node: int) -> Done:
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

    def isolate(self, fault: f.Isolate, find: Find) -> Done:
        """Take the node off the cluster's network."""
        node = self._running(fault.node, find)
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

    def start_again(self, node: int) -> str:
        """Kill the node if it runs, start it, and return its state."""
        if self._cluster.status(node) == "running":
            self._kill(node)
        return self.start(node)

    def ways_back(self) -> tuple[Callable[[], str], ...]:
        """Return functions that bring back every node which a fault stopped or ended.

        Functions that let processes go on come first, then functions that start nodes. Faults that
        were not proven count too.
        """
        go_on = (partial(self.go_on, node) for node in tuple(self._stopped))
        start = (partial(self.start, node) for node in tuple(self._ended))
        return (*go_on, *start)

    def may_have_ended(self, node: int) -> None:
        """Have ways_back start the node too, if it does not run then."""
        self._ended[node] = None

    def unpause(self, node: int) -> str:
        if self._cluster.status(node) == "paused":
            self._cluster.unpause(node)
        if node in self._goes_on_later:
            self.go_on(node)
        return self._cluster.status(node)

    def go_on(self, node: int) -> str:
        """Let the processes of a stopped node go on; if the node is frozen, once it is unpaused."""
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


def _tells_of_failure(line: bytes, folder: str) -> bool:
    """Return whether a trace's line, perhaps a torn one, reports that the log folder has failed."""
    if EventKind.LOG_FOLDER_FAILED.value.encode() not in line:
        return False
    return any(event.detail["folder"] == folder for event in decode_events([line]))
