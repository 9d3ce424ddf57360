"""One kind of fault on containers, and the objects that do the faults of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from highwater.faults.disks.faulty_disks import FaultyDisks
from highwater.faults.disks.full_disks import FullDisks
from highwater.faults.done import Done, Find, NotDone
from highwater.faults.links.of_cluster import ClusterLinks
from highwater.faults.means import IN_A_NAMESPACE, Means
from highwater.faults.processes.clients import Clients
from highwater.faults.processes.clocks import Clocks
from highwater.faults.processes.nodes import NodeFaults
from highwater.faults.processes.points import FailPointFaults
from highwater.faults.topics import TopicWork
from highwater.faults.zookeeper.server import ServerFaults
from highwater.faults.zookeeper.sessions import SessionFaults
from highwater_chaos import faults as f

F = TypeVar("F", bound=f.Fault)


@dataclass(frozen=True, slots=True)
class Rooms:
    """The objects that do the faults of one run. clients: None where the run has none."""

    nodes: NodeFaults
    clients: Clients | None
    points: FailPointFaults
    clocks: Clocks
    disks: FullDisks
    faulty_disks: FaultyDisks
    links: ClusterLinks
    sessions: SessionFaults
    zookeeper: ServerFaults
    topics: TopicWork


Do = Callable[[Rooms, str, F, Find], Done]
"""Does a fault. The name is unique among the faults of the run.

Raises NotDone, NotInNamespace, NotProven, NeverHappened or OSError (of which APIError is one) when
the fault was not done, or is not seen to act.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[F]):
    """One kind of fault on containers.

    fault: its class in plans.
    do: the function that does it.
    needs: the means without which it cannot be done.
    better_with: means that it uses where they work.
    mechanism: how it is done, in words.
    proof: how it is seen to act, in words.
    ends: what ends it if the harness dies, in words.
    examples: faults of the kind, for tests and benches that try all kinds. They suit a cluster of
        three brokers with sized disks, one controller and no topics. None needs a workload in order
        to act, and each lasts until it is undone.
    no_example: why there is none for such a cluster.
    has_lead: whether it is begun some time before it acts, so that links are measured before.
    unsupported: why containers cannot do any fault of the kind; then needs and all words are empty.
    refuses: returns why containers cannot do this very fault, "" when they can.
    """

    fault: type[F]
    do: Do[F]
    needs: tuple[Means, ...] = ()
    better_with: tuple[Means, ...] = ()
    mechanism: str = ""
    proof: str = ""
    ends: str = ""
    examples: tuple[F, ...] = ()
    no_example: str = ""
    has_lead: bool = False
    unsupported: str = ""
    refuses: Callable[[F], str] = lambda fault: ""

    def why_not(self, fault: F) -> str:
        """Return why containers cannot do the fault, "" when they can."""
        return self.unsupported or self.refuses(fault)

    @property
    def is_on_links(self) -> bool:
        """Whether it needs helpers in network namespaces."""
        return not IN_A_NAMESPACE.isdisjoint(self.needs)


def unsupported(fault: type[F], why: str) -> Kind[F]:
    return Kind(fault=fault, do=_refuse, unsupported=why)


def _refuse(rooms: Rooms, name: str, fault: f.Fault, find: Find) -> Done:
    raise NotDone(f"containers cannot do it: {f.fault_name(fault)}")
