"""Does to containers what a plan says: intent written, done, proven, taken back, and all of it
logged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from docker.errors import APIError

from highwater.cluster.cluster import Cluster
from highwater.errors import ImageBuildFailed, NodeUnreachable
from highwater.faults.disks.full_disks import FullDisks
from highwater.faults.done import Done, Find, NotDone, found
from highwater.faults.intents import IntentLog
from highwater.faults.links.acting import NotProven
from highwater.faults.links.namespaces import NotInNamespace
from highwater.faults.links.of_cluster import HELD, LASTING, ON_LINKS, ClusterLinks
from highwater.faults.processes.clients import Clients, kill_clients
from highwater.faults.processes.nodes import NodeFaults
from highwater.faults.processes.points import FailPointFaults
from highwater.faults.topics import TopicWork
from highwater.faults.zookeeper import ZooKeeperFaults
from highwater.waiting import NeverHappened
from highwater_chaos import faults as f
from highwater_core.events import TraceEvent

_FAILED = (
    APIError, ImageBuildFailed, NeverHappened, NodeUnreachable, NotDone, NotInNamespace, NotProven,
    OSError,
)  # fmt: skip
"""How doing a fault, or taking it back, may fail."""

R = TypeVar("R")


class ContainerFaults:
    """The faults of one run; calls may come from different threads."""

    def __init__(
        self, cluster: Cluster, intents: IntentLog, clients: Clients | None = None
    ) -> None:
        """clients: those of the run, if it has any that may be killed."""
        self._cluster = cluster
        self._intents = intents
        self._clients = clients
        self._nodes = NodeFaults(cluster, self._start_node)
        self._full_disks = FullDisks(cluster, self._nodes.may_have_ended)
        self._links = ClusterLinks(
            cluster, lambda why: self._intents.write(0, "not_renewed", why=why)
        )
        self._points = FailPointFaults(cluster, self._start_node)
        self._zookeeper = ZooKeeperFaults(cluster, self._start_node)
        self._topics = TopicWork(cluster)
        self._lock = threading.Lock()
        self._acting: dict[int, Done] = {}
        self._problems: list[str] = []

    def get_ready(self, faults: Iterable[f.Fault]) -> None:
        """Make what these faults need, so that none of them waits for it.

        Raises:
            ImageBuildFailed, NotInNamespace, NotProven: they cannot be done here.
        """
        asked = list(faults)
        if any(isinstance(fault, ON_LINKS) for fault in asked):
            self._links.get_ready(with_queues=any(isinstance(fault, HELD) for fault in asked))
        elif any(isinstance(fault, f.Isolate) for fault in asked):
            why_not = self._links.try_to_get_ready()
            if why_not:
                self._intents.write(0, "no_helpers", why=why_not)

    def lead_ms(self, fault: f.Fault) -> int:
        """Return how long before the fault is to act it must be begun."""
        on_links = isinstance(fault, LASTING | f.Isolate)
        return self._links.lead_ms if on_links else 0

    def heard(self, event: TraceEvent) -> None:
        """Take in what a node traced, from any thread: fail-points are seen to be hit by it."""
        self._points.heard(event)

    def apply(self, fault: f.Fault, find: Find) -> Done:
        """Do it, and return how it is taken back.

        Raises:
            NotDone: it was not done, or not seen to act.
        """
        number = self._intents.begin(fault)
        try:
            done = self._apply(number, fault, find)
        except _FAILED as error:
            self._intents.write(number, "not_done", why=str(error))
            raise NotDone(str(error)) from error
        self._intents.write(number, "acting", node=done.node, proof=done.proof)
        with self._lock:
            self._acting[number] = done
        return replace(done, revert=partial(self._revert, number))

    def _apply(self, number: int, fault: f.Fault, find: Find) -> Done:
        match fault:
            case f.Isolate() if self._links.is_ready:
                return self._links.isolate(str(number), fault, find)
            case f.Kill() | f.FlipBit() | f.CrashLoop() | f.Terminate() | f.Pause() | f.Isolate():
                return self._nodes.apply(fault, find)
            case f.DiskFull():
                return self._full_disks.fill(found(find, fault.node))
            case f.KillClient():
                return kill_clients(self._clients, fault)
            case f.CrashAt() | f.DelayAt():
                return self._points.arm(fault, found(find, fault.node))
            case f.Cut() | f.LossyLink() | f.SlowLink() | f.LimitBandwidth() | f.SlowZooKeeper():
                return self._links.last(str(number), fault, find)
            case f.ResetConnections():
                return self._links.reset(fault, find)
            case f.HalfOpen():
                return self._links.half_open(fault, find)
            case f.LoseZooKeeperConnection():
                return self._links.lose_zookeeper_connection(fault, find)
            case f.ExpireSession():
                return self._zookeeper.expire_session(found(find, fault.node))
            case f.PauseZooKeeper():
                return self._zookeeper.pause()
            case f.RestartZooKeeper():
                return self._zookeeper.stop()
            case f.CreateTopic():
                return self._topics.create(fault)
            case f.DeleteTopic():
                return self._topics.delete(fault)
            case _:
                raise NotDone(f"containers cannot do it: {f.fault_name(fault)}")

    def _start_node(self, node: int) -> None:
        """Start a stopped node with what acts on it: its fail-points, and its links' faults.

        Raises:
            APIError, NotInNamespace: it was not.
        """
        self._points.before_start(node)
        self._cluster.start_node(node)
        # A network namespace of its own, without our rules.
        self._links.tell_again(node)

    def _revert(self, number: int) -> str:
        """Take the fault back, once; what went wrong is returned by heal_all."""
        with self._lock:
            done = self._acting.pop(number, None)
        if done is None:
            return "taken back before"
        self._intents.write(number, "reverting")
        try:
            seen = done.revert()
        except _FAILED as error:
            self._intents.write(number, "not_reverted", why=str(error))
            self._problems.append(f"fault {number} was not taken back: {error}")
            return str(error)
        self._intents.write(number, "reverted", seen=seen)
        return seen

    def heal_all(self) -> list[str]:
        """Take every fault back that acts, the last first; return what went wrong, now or before.

        Whoever a fault ended runs afterwards, even if that end was not proven. Whatever one part
        of it raises, the others are tried.
        """
        self._try("renewing links did not end", self._links.end)
        for number in sorted(self._acting, reverse=True):
            self._try(f"fault {number} was not taken back", partial(self._revert, number))
        for what, end in (
            ("links", self._links.heal_rest),
            ("fail-points", self._points.end),
            ("full disks", self._full_disks.end),
        ):
            self._problems.extend(self._try(f"{what} were not all healed", end) or ())
        for way_back in self._nodes.ways_back():
            self._try("a node was not brought back", way_back)
        return self._problems

    def _try(self, otherwise: str, part: Callable[[], R]) -> R | None:
        """Return what a part of the healing does; None if it raised, which is one of the problems.

        Of any kind: a bug here must not leave faults behind.
        """
        try:
            return part()
        except Exception as error:  # noqa: BLE001 (told among the problems)
            self._problems.append(f"{otherwise}: {_named(error)}")
            return None


def _named(error: Exception) -> str:
    """Return the error's text, with its type if it is none that is expected."""
    return str(error) if isinstance(error, _FAILED) else repr(error)
