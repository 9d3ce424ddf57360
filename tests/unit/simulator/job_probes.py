"""A small effect of each planted bug of highwater_planted.jobs and .transitions, by its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from highwater_controller import (
    failover,
    leader_elections,
    partition_state_machine,
    reassignment,
    replica_state_machine,
    topic_deletion,
)
from highwater_controller.context import (
    ControllerContext,
    ListedReassignments,
    Replica,
    VersionedLeadership,
)
from highwater_controller.logic.leader_selectors import Elected
from highwater_controller.logic.replica_states import ReplicaState
from highwater_core.admin_messages import ElectionType
from highwater_core.ids import ControllerEpoch, LeaderEpoch, NodeId, PartitionEpoch, TopicPartition
from highwater_core.topic_znode import Reassignment
from highwater_core.znodes import PartitionLeadership

ME, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
T0 = TopicPartition("t", 0)


class Asked(Exception):
    """The probed procedure has called ZooKeeper, or a channel."""


class Asking:
    """In place of ZooKeeper and the channels: raises Asked at the first call."""

    def __getattr__(self, name: str) -> Any:
        raise Asked(name)

    def __call__(self, *arguments: object, **named: object) -> None:
        raise Asked


def context() -> ControllerContext:
    made = ControllerContext(NodeId(1000), ControllerEpoch(1))
    made.assign(T0, (ME, TWO, THREE))
    made.reassignments[T0] = Reassignment((THREE,), ())
    made.listed_reassignments = ListedReassignments(1, 0, {T0: (ME, TWO, THREE)})
    made.replica_states[Replica(T0, THREE)] = ReplicaState.NEW
    leadership = PartitionLeadership(TWO, LeaderEpoch(0), ControllerEpoch(1), (TWO, THREE))
    made.leaderships[T0] = VersionedLeadership(leadership, PartitionEpoch(0))
    return made


def asks(bench: Any, procedure: Any, *arguments: object) -> object:
    """Return whether the procedure asks anybody for anything."""
    known = context()
    term = SimpleNamespace(context=known, store=Asking(), channels=Asking(), emit=Asking())

    async def run() -> None:
        await procedure(term, *arguments)

    async def tried() -> bool:
        try:
            await run()
        except (Asked, AttributeError):
            return True
        return False

    return bench.do(tried())


def fault_of_a_lagging_preferred_replica() -> object:
    term = SimpleNamespace(context=context())
    fault = leader_elections._find_fault(term, T0, ElectionType.PREFERRED)  # type: ignore[arg-type]
    return None if fault is None else fault.error.name


def elected_of_a_lagging_preferred_replica() -> object:
    live = frozenset((ME, TWO))
    found = partition_state_machine.elect_preferred((ME, TWO), (TWO,), live)
    return isinstance(found, Elected)


def replicas_that_a_move_adds(bench: Any) -> object:
    term = SimpleNamespace(context=context())
    return partition_state_machine._added_replicas(term, T0)  # type: ignore[arg-type]


def goes_offline_before_its_deletion(bench: Any) -> object:
    offline = ReplicaState.OFFLINE
    return asks(bench, topic_deletion.move_replicas, [Replica(T0, THREE)], offline)


JOBS: dict[str, tuple[Any, object, object]] = {
    "moved_before_in_sync": (
        lambda bench: reassignment.may_complete((ME, TWO), (ME,), frozenset((ME, TWO))),
        False,
        True,
    ),
    "isr_keeps_who_goes": (
        lambda bench: reassignment.staying((ME, TWO, THREE), (ME,)),
        (ME,),
        (ME, TWO, THREE),
    ),
    "moved_replica_not_stopped": (
        lambda bench: asks(bench, reassignment._delete_replicas, [Replica(T0, THREE)]),
        True,
        False,
    ),
    "epoch_kept_when_moved": (
        lambda bench: asks(bench, reassignment._raise_epoch, T0), True, False,
    ),
    "admin_job_kept": (
        lambda bench: asks(bench, reassignment.end_reassignments, [T0]), True, False,
    ),
    "moves_not_resumed": (
        lambda bench: asks(bench, failover.resume_reassignments, [T0]), True, False,
    ),
    "preferred_outside_isr": (
        lambda bench: (
            fault_of_a_lagging_preferred_replica(), elected_of_a_lagging_preferred_replica()
        ),
        ("PREFERRED_LEADER_NOT_AVAILABLE", False),
        (None, True),
    ),
    "added_replica_elected": (replicas_that_a_move_adds, (THREE,), ()),
    "deleted_without_stopping": (goes_offline_before_its_deletion, True, False),
    "transition_not_checked": (
        lambda bench: (
            goes_offline_before_its_deletion(bench),
            replica_state_machine.may_become(ReplicaState.ONLINE, ReplicaState.DELETION_STARTED),
            (ReplicaState.ONLINE, ReplicaState.DELETION_STARTED) in replica_state_machine.EFFECTS,
        ),
        (True, False, False),
        (False, True, True),
    ),
}  # fmt: skip
"""Each with its probe's result without the mistake, and with it."""
