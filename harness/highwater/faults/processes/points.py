"""Fail-points of nodes: armed by the nodes' own RPC, and for their next start by a file.

A point stays armed through its node's restarts until it is hit or undone, as in the simulator.
A node that a point ended is started again after its time.
The node's answer proves that a point is armed. Its trace proves that the point was hit: for delays
the live trace, and for exits the trace on the ended node's volume, whose last event is the hit.
"""

from __future__ import annotations

import tarfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
from docker.errors import APIError, NotFound

from highwater.cluster.cluster import KILLED_EXIT_CODE, UP, Cluster
from highwater.cluster.container_files import put_file
from highwater.cluster.disks import DATA_FOLDER
from highwater.cluster.inspection import ask_once
from highwater.errors import NodeUnreachable
from highwater.faults.disks.node_files import newest_trace, read_node_file
from highwater.faults.done import Done, NotDone, prove
from highwater.faults.links.namespaces import NotInNamespace
from highwater_chaos import faults as f
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.fail_points import BROKER_FAIL_POINTS, CONTROLLER_FAIL_POINTS
from highwater_core.ids import Endpoint, is_controller
from highwater_core.messages import FailPointAction, SetFailPointRequest, SetFailPointResponse
from highwater_core.traces import decode_events

ANSWERS_WITHIN_S = 3.0
POLL_S = 0.05
START_FILE = "fail_points.json"
"""See highwater_adapters.armed_at_start."""

PointFault = f.CrashAt | f.DelayAt
_FAILED = (APIError, NotDone, NotInNamespace, OSError)


@dataclass(slots=True, eq=False)
class ArmedPoint:
    """One fault's point at one node. hits: how often the node's trace reports a hit so far."""

    node: int
    request: SetFailPointRequest
    restart_after_ms: int | None
    hits: int = 0
    is_over: bool = False

    def is_hit_by(self, event: TraceEvent) -> bool:
        named = event.detail.get("name"), event.detail.get("action")
        return (
            event.kind is EventKind.FAIL_POINT_HIT
            and event.node == self.node
            and named == (self.request.name, self.request.action.value)
        )

    def hits_in_words(self) -> str:
        """Return how often the point was hit, in words."""
        if self.request.action is FailPointAction.EXIT:
            return "hit: the node died there" if self.hits else "never hit: nobody died there"
        return f"hit {self.hits} times" if self.hits else "no hit was reported"


@dataclass(slots=True)
class _OfNode:
    """A node's points. wrote_file: whether we wrote a start file to its volume."""

    armed: list[ArmedPoint] = field(default_factory=list)
    wrote_file: bool = False
    judged: str = ""
    """When the node ended last, by the engine, of the ends whose cause was looked for."""

    def requests(self) -> dict[str, SetFailPointRequest]:
        """Return the requests that the next start arms: by point, the newest that was not hit."""
        return {each.request.name: each.request for each in self.armed if not each.hits}


class FailPointFaults:
    """The fail-points of one cluster; calls may come from different threads."""

    def __init__(self, cluster: Cluster, start: Callable[[int], None]) -> None:
        """start: starts a stopped node, and loads its links' rules and fail-points."""
        self._cluster = cluster
        self._start = start
        self._lock = threading.RLock()
        self._nodes: dict[int, _OfNode] = {}
        self._to_start: dict[int, float | None] = {}
        """Nodes that a point ended, and when to start them, monotonic seconds; None: at end()."""
        self._watch: threading.Thread | None = None
        self._is_over = threading.Event()
        self._problems: dict[str, None] = {}

    # ------------------------------------------------------------ arming

    def arm(self, fault: PointFault, node: int) -> Done:
        """Arm the fault's point at the node, now if it runs and at each start.

        Raises:
            NotDone: the node does not answer, or has no such point.
        """
        if isinstance(fault, f.CrashAt):
            request = SetFailPointRequest(fault.point, FailPointAction.EXIT, 1)
            armed = ArmedPoint(node, request, fault.restart_after_ms)
        else:
            request = SetFailPointRequest(
                fault.point, FailPointAction.DELAY, fault.count, fault.delay_ms
            )
            armed = ArmedPoint(node, request, None)
        prove(fault.point in points_of(node), f"node {node} has no fail-point {fault.point}")
        with self._lock:
            if self._is_up(node):
                proof = f"the node's answer: {self._ask(node, request).name}"
            else:
                proof = "the node is down: it arms the point when it starts"
            self._nodes.setdefault(node, _OfNode()).armed.append(armed)
            self._begin_to_watch()
        return Done(
            node,
            proof,
            lambda: self._disarm(armed),
            later=armed.hits_in_words,
            has_acted=lambda: bool(armed.hits),
        )

    def _disarm(self, armed: ArmedPoint) -> str:
        with self._lock:
            of_node = self._nodes[armed.node]
            if armed.is_over:
                return armed.hits_in_words()
            armed.is_over = True
            of_node.armed.remove(armed)
            # Another fault at the same point stays armed.
            off = SetFailPointRequest(armed.request.name, FailPointAction.OFF)
            try:
                error = self._ask(armed.node, of_node.requests().get(armed.request.name, off))
            except NotDone:
                if self._is_up(armed.node):
                    raise
                return f"{armed.hits_in_words()}; the node is down, and disarmed with it"
            return f"{armed.hits_in_words()}; disarmed, the node's answer: {error.name}"

    def _is_up(self, node: int) -> bool:
        return self._cluster.status(node) in UP

    def _ask(self, node: int, request: SetFailPointRequest) -> ErrorCode:
        """Send the request to the node, and return its answer, which is NONE.

        Raises:
            NotDone: the node is down, gave another answer, or gave none.
        """
        prove(self._is_up(node), f"node {node} is down")
        error = set_fail_point(self._cluster.control_endpoint(node), request)
        prove(error is ErrorCode.NONE, f"node {node} answers {error.name} to {request}")
        return error

    def before_start(self, node: int) -> None:
        """Write to a stopped node's volume which points it arms when it starts.

        Raises:
            APIError: the engine refused.
        """
        with self._lock:
            of_node = self._nodes.get(node)
            if of_node is None or not (of_node.armed or of_node.wrote_file):
                return
            self._look_at(node)  # a point that ended it just now is not armed again
            write_start_file(self._cluster, node, of_node.requests().values())
            of_node.wrote_file = True
            self._to_start.pop(node, None)

    # ------------------------------------------------------------ hits

    def heard(self, event: TraceEvent) -> None:
        """Take in a node's trace event, from any thread."""
        if event.kind is EventKind.FAIL_POINT_HIT:
            with self._lock:
                of_node = self._nodes.get(event.node)
                for armed in () if of_node is None else tuple(of_node.armed):
                    if armed.request.action is FailPointAction.DELAY and armed.is_hit_by(event):
                        self._delay_hit(armed)

    def _delay_hit(self, armed: ArmedPoint) -> None:
        """Note the hit. After the first one no start arms the point again, as in the simulator."""
        armed.hits += 1
        if armed.hits == armed.request.count:  # then the node has disarmed the point
            armed.is_over = True
            self._nodes[armed.node].armed.remove(armed)

    def _begin_to_watch(self) -> None:
        if self._watch is None:
            self._watch = threading.Thread(target=self._watch_exits, name="points", daemon=True)
            self._watch.start()

    def _watch_exits(self) -> None:
        while not self._is_over.wait(POLL_S):
            try:
                with self._lock:
                    for node in self._nodes:
                        self._look_at(node)
                    due = [n for n, at in self._to_start.items() if at and at <= time.monotonic()]
                for node in due:
                    self._start_again(node)
            except _FAILED as error:
                self._problems[f"watching fail-points: {error}"] = None

    def _look_at(self, node: int) -> None:
        """See whether a point ended the node."""
        of_node = self._nodes[node]
        exits = [each for each in of_node.armed if each.request.action is FailPointAction.EXIT]
        if not exits:
            return
        container = self._cluster.container_name(node)
        about = self._cluster.engine.api.inspect_container(container)["State"]
        end = str(about["FinishedAt"])
        if (about["Status"], about["ExitCode"]) != ("exited", KILLED_EXIT_CODE):
            return
        if end == of_node.judged:
            return
        of_node.judged = end
        last = last_event(self._cluster, node)
        for armed in exits:
            if last is not None and armed.is_hit_by(last):
                armed.hits += 1
                armed.is_over = True
                of_node.armed.remove(armed)
                after_ms = armed.restart_after_ms
                self._to_start[node] = (
                    None if after_ms is None else time.monotonic() + after_ms / 1000
                )

    def _start_again(self, node: int) -> None:
        with self._lock:
            self._to_start.pop(node, None)
        if self._cluster.status(node) == "exited":
            self._start(node)

    # ------------------------------------------------------------ the end

    def end(self) -> list[str]:
        """Start nodes that a point ended, and remove start files; return the errors in words."""
        self._is_over.set()
        if self._watch is not None:
            self._watch.join()
        for node, of_node in self._nodes.items():
            try:
                self._look_at(node)
                for armed in tuple(of_node.armed):
                    self._disarm(armed)
                if node in self._to_start:
                    self._start_again(node)
                elif of_node.wrote_file:
                    write_start_file(self._cluster, node, [])
            except _FAILED as error:
                self._problems[f"fail-points of node {node}: {error}"] = None
        return list(self._problems)


# ---------------------------------------------------------------- means


def points_of(node: int) -> tuple[str, ...]:
    """Return the names of the fail-points that a node of that id has."""
    return CONTROLLER_FAIL_POINTS if is_controller(node) else BROKER_FAIL_POINTS


def set_fail_point(
    endpoint: Endpoint, request: SetFailPointRequest, *, within_s: float = ANSWERS_WITHIN_S
) -> ErrorCode:
    """Send the request to a node, and return its answer.

    Raises:
        NotDone: no answer came in time.
    """
    try:
        return ask_once(endpoint, request, SetFailPointResponse, timeout_s=within_s).error
    except NodeUnreachable as error:
        raise NotDone(f"SetFailPoint is not answered: {error}") from error


def write_start_file(cluster: Cluster, node: int, requests: Iterable[SetFailPointRequest]) -> None:
    """Replace the node's start file; it is read once, when the node starts.

    Raises:
        APIError: the engine refused.
    """
    content = msgspec.json.encode(list(requests))
    entry = tarfile.TarInfo(START_FILE)
    put_file(cluster.engine, cluster.container_name(node), DATA_FOLDER, entry, content)


def armed_for_start(cluster: Cluster, node: int) -> list[str]:
    """Return the fail-points that the node's next start is to arm.

    Raises:
        APIError: the engine refused.
    """
    try:
        content = read_node_file(cluster, node, START_FILE)
    except NotFound:
        return []
    return [each.name for each in msgspec.json.decode(content, type=list[SetFailPointRequest])]


def last_event(cluster: Cluster, node: int) -> TraceEvent | None:
    """Return the last event that a node's newest incarnation left on its volume, if any."""
    # The last line may be torn and is left out then; so the last two lines are enough.
    events = decode_events(newest_trace(cluster, node)[-2:])
    return events[-1] if events else None


def disarm_everything(cluster: Cluster, node: int) -> None:
    """Disarm every fail-point of a node, now if it runs and at its next start.

    Raises:
        APIError, NotDone: the engine or the node refused.
    """
    write_start_file(cluster, node, [])
    if cluster.status(node) == "running":
        for point in points_of(node):
            set_fail_point(
                cluster.control_endpoint(node), SetFailPointRequest(point, FailPointAction.OFF)
            )
