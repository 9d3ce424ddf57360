"""Does a plan's faults to containers: each is logged, done, proven and undone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from docker.errors import APIError

from highwater.cluster.cluster import Cluster
from highwater.errors import ImageBuildFailed, NodeUnreachable
from highwater.faults.disks.faulty_disks import FaultyDisks
from highwater.faults.disks.full_disks import FullDisks
from highwater.faults.done import Done, Find, NotDone
from highwater.faults.intents import IntentLog
from highwater.faults.kind import Rooms
from highwater.faults.kinds import KINDS
from highwater.faults.links.acting import NotProven
from highwater.faults.links.namespaces import NotInNamespace
from highwater.faults.links.of_cluster import ClusterLinks
from highwater.faults.means import Means
from highwater.faults.processes.clients import Clients
from highwater.faults.processes.clocks import Clocks
from highwater.faults.processes.nodes import NodeFaults
from highwater.faults.processes.points import FailPointFaults
from highwater.faults.topics import TopicWork
from highwater.faults.zookeeper.server import ServerFaults
from highwater.faults.zookeeper.sessions import SessionFaults
from highwater.waiting import NeverHappened
from highwater_chaos import faults as f
from highwater_checker.run_folder.intents import NO_FAULT, Phase
from highwater_core.events import TraceEvent

_FAILED = (
    APIError, ImageBuildFailed, NeverHappened, NodeUnreachable, NotDone, NotInNamespace, NotProven,
    OSError,
)  # fmt: skip
"""The errors with which doing a fault, or taking it back, may fail."""

R = TypeVar("R")


class ContainerFaults:
    """The faults of one run; calls may come from different threads."""

    def __init__(
        self, cluster: Cluster, intents: IntentLog, clients: Clients | None = None
    ) -> None:
        """clients: the run's clients; None if it has none that may be killed."""
        self._cluster = cluster
        self._intents = intents
        nodes = NodeFaults(cluster, self._start_node)
        sessions = SessionFaults(cluster)
        self._rooms = Rooms(
            nodes=nodes,
            clients=clients,
            points=FailPointFaults(cluster, self._start_node),
            clocks=Clocks(cluster),
            disks=FullDisks(cluster, nodes.may_have_ended),
            faulty_disks=FaultyDisks(cluster, nodes.may_have_ended, nodes.start_again),
            links=ClusterLinks(
                cluster, lambda why: intents.write(NO_FAULT, Phase.NOT_RENEWED, why=why)
            ),
            sessions=sessions,
            zookeeper=ServerFaults(cluster, sessions, self._start_node),
            topics=TopicWork(cluster),
        )
        self._lock = threading.Lock()
        self._acting: dict[int, Done] = {}
        self._problems: list[str] = []

    def get_ready(self, faults: Iterable[f.Fault]) -> None:
        """Make the images and helpers that these faults need, so that none of them waits for them.

        Raises:
            ImageBuildFailed, NotInNamespace, NotProven: the faults cannot be done here.
        """
        try:
            self._rooms.zookeeper.remember_start()
        except OSError as error:  # every error of the engine's client is one
            raise NotProven(f"the engine does not report ZooKeeper's start: {error}") from error
        kinds = [KINDS[type(fault)] for fault in faults]
        if any(kind.is_on_links for kind in kinds):
            with_queues = any(Means.QUEUE in kind.needs for kind in kinds)
            self._rooms.links.get_ready(with_queues=with_queues)
        elif any(kind.better_with for kind in kinds):
            why_not = self._rooms.links.try_to_get_ready()
            if why_not:
                self._intents.write(NO_FAULT, Phase.NO_HELPERS, why=why_not)

    def lead_ms(self, fault: f.Fault) -> int:
        """Return how much earlier than it is to act the fault must be begun, ms."""
        return self._rooms.links.lead_ms if KINDS[type(fault)].has_lead else 0

    def heard(self, event: TraceEvent) -> None:
        """Take in a node's trace event, from any thread: it may report a hit of a fail-point."""
        self._rooms.points.heard(event)

    def apply(self, fault: f.Fault, find: Find) -> Done:
        """Do the fault, and return its proof and its revert.

        Raises:
            NotDone: the fault was not done, or is not seen to act.
        """
        number = self._intents.begin(fault)
        begun_ns = time.monotonic_ns()
        try:
            done = KINDS[type(fault)].do(self._rooms, str(number), fault, find)
        except _FAILED as error:
            self._intents.write(number, Phase.NOT_DONE, why=str(error))
            raise NotDone(str(error)) from error
        acted_ns = begun_ns if done.acted_ns is None else done.acted_ns
        self._intents.write(
            number,
            Phase.ACTING,
            node=done.node,
            proof=done.proof,
            acted_ago_ns=time.monotonic_ns() - acted_ns,
        )
        with self._lock:
            self._acting[number] = done
        return replace(done, revert=partial(self._revert, number))

    def _start_node(self, node: int) -> None:
        """Start a stopped node, and give it its fail-points and the rules of its links' faults.

        All starts of a run's nodes after their first are made here, and written to its intents. The
        judge reports a start without an intent: it was not the run's.

        Raises:
            APIError: the engine refused.
            NotInNamespace: the rules could not be loaded.
        """
        self._rooms.points.before_start(node)
        self._intents.write(NO_FAULT, Phase.STARTING, node=node)
        self._cluster.start_node(node)
        # The start made a new network namespace, which has no rules of ours.
        self._rooms.links.tell_again(node)

    @property
    def problems(self) -> tuple[str, ...]:
        """The errors with which faults were not undone, so far."""
        return tuple(self._problems)

    def _revert(self, number: int) -> str:
        """Undo the fault, once, and return how it is seen to be gone; heal_all returns errors."""
        with self._lock:
            done = self._acting.pop(number, None)
        if done is None:
            return "undone before"
        self._intents.write(number, Phase.REVERTING)
        try:
            seen = done.revert()
        except _FAILED as error:
            self._intents.write(number, Phase.NOT_REVERTED, why=str(error))
            self._problems.append(f"fault {number} was not undone: {error}")
            return str(error)
        self._intents.write(number, Phase.REVERTED, seen=seen)
        return seen

    def strange_start_of_zookeeper(self) -> str:
        """Return "" if ZooKeeper's last start was this run's own, else the reason in words.

        An engine that does not report the start is such a reason.
        """
        try:
            is_strange = self._rooms.zookeeper.was_started_by_others()
        except _FAILED as error:
            return str(error)
        return "it was started again, or removed, by somebody else" if is_strange else ""

    def heal_all(self) -> list[str]:
        """Undo every fault that acts, the last first; return all errors, earlier ones too.

        Every node that a fault ended runs afterwards, even if its end was not proven. An error in
        one part of the healing does not keep the other parts from being tried.
        """
        self._try("renewing links did not end", self._rooms.links.end)
        for number in sorted(self._acting, reverse=True):
            self._try(f"fault {number} was not undone", partial(self._revert, number))
        for what, end in (
            ("links", self._rooms.links.heal_rest),
            ("fail-points", self._rooms.points.end),
            ("full disks", self._rooms.disks.end),
            ("faulty disks", self._rooms.faulty_disks.end),
            ("clocks", self._rooms.clocks.end),
        ):
            self._problems.extend(self._try(f"{what} were not all healed", end) or ())
        for way_back in self._rooms.nodes.ways_back():
            self._try("a node was not brought back", way_back)
        return self._problems

    def _try(self, otherwise: str, part: Callable[[], R]) -> R | None:
        """Return the result of a part of the healing; if it raises, note the problem, return None.

        Errors of all types are noted: a bug in one part must not leave other faults behind.
        """
        try:
            return part()
        except Exception as error:  # noqa: BLE001 (reported among the problems)
            self._problems.append(f"{otherwise}: {_named(error)}")
            return None


def _named(error: Exception) -> str:
    """Return the error's text, with its type if it is not one of the expected types."""
    return str(error) if isinstance(error, _FAILED) else repr(error)
