"""A leader moves its partition's replicas: onPartitionsReassigned, and what follows from it.

Each step is one transaction on the versions of what it was decided from, so that it is taken once,
by the leader of that moment, or not at all; the next leader goes on from ZooKeeper alone.
Source: the first design (V2), onPartitionsReassigned; docs/decisions/0010. Deviation: the document
has the first step alone, start-replica to RAR - AR.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.asked_replicas import Asked, AskedReplicas
from highwater_broker.first_design.cluster_view import ClusterView, KnownTopic
from highwater_broker.first_design.leader_paths import Written, without_leader
from highwater_broker.first_design.queues import StateChangeQueues
from highwater_broker.first_design.told_once import ToldOnce
from highwater_broker.logic.moves import (
    Begin,
    Complete,
    Impossible,
    MoveFacts,
    next_step,
)
from highwater_broker.logic.state_change_queue import FollowerStateChangeQueueFull
from highwater_broker.partition import Partition
from highwater_core.events import EventKind
from highwater_core.first_design_znodes import (
    StateChange,
    StateChangeRequest,
    reassigned_path,
)
from highwater_core.ids import LeaderEpoch, NodeId, PartitionEpoch, TopicPartition
from highwater_core.ports import (
    CheckOp,
    DeleteOp,
    MultiFailed,
    MultiOp,
    SetOp,
    Stat,
    TooLarge,
    Trace,
)
from highwater_core.reassignments import NOT_REASSIGNED
from highwater_core.topic_znode import TopicContent, encode_content, with_replicas
from highwater_core.znodes import (
    encode_partition_state,
    partition_state_path,
    topic_path,
)


class ReplicaMoves:
    """Invariant: `under_way` has the partitions led here whose replicas are asked for or moved."""

    def __init__(
        self,
        broker_id: NodeId,
        session: CurrentSession,
        trace: Trace,
        view: ClusterView,
        queues: StateChangeQueues,
        asked: AskedReplicas,
        told: ToldOnce,
    ) -> None:
        self._broker_id = broker_id
        self._session = session
        self._trace = trace
        self._view = view
        self._queues = queues
        self._asked = asked
        self._told = told
        self._under_way: dict[TopicPartition, None] = {}

    def under_way(self) -> tuple[TopicPartition, ...]:
        """Return the partitions to look at again when the live brokers have changed."""
        return tuple(self._under_way)

    async def look(self, partition: Partition, written: Written) -> bool:
        """Take the next step of the partition's move, if this broker leads it and has taken over.

        The znode with the replicas that are asked for is watched from then on. Return True where
        the caller is to look again later, since no watch may fire.
        """
        at = partition.topic_partition
        self._under_way.pop(at, None)
        if not (written.is_own and partition.serves_clients):
            return False
        if written.leader_epoch != partition.leader_epoch:
            return False
        if self._broker_id in written.isr:
            partition.adopt_written_isr(written.isr, written.partition_epoch)
        asked = await self._asked.read(at, watch=True)
        known = self._view.topic(at.topic)
        replicas = self._view.replicas_of(at)
        if asked is None or known is None or not replicas or not partition.serves_clients:
            return False
        facts = MoveFacts(
            leader=self._broker_id,
            replicas=replicas,
            reassignment=self._view.reassignment_of(at),
            asked=asked.replicas,
            isr=written.isr,
            live=frozenset(self._view.live()),
            min_insync_replicas=partition.min_insync_replicas,
        )
        try:
            step = next_step(facts)
        except Impossible as impossible:
            self._under_way[at] = None
            self._told.tell(reassigned_path(at), str(impossible), asked.mzxid)
            return False
        if step is None:
            return False
        self._under_way[at] = None
        try:
            if isinstance(step, Begin):
                return not await self._begin(partition, known, asked, step)
            if isinstance(step, Complete):
                return not await self._complete(partition, written, known, asked, step)
        except (FollowerStateChangeQueueFull, TooLarge) as fault:
            self._told.tell(reassigned_path(at), f"{type(fault).__name__}: {fault}", asked.mzxid)
        return True  # min.insync.replicas, or a queue, may change

    async def begin_session(self) -> None:
        """Trace the znodes that ask for replicas of partitions that do not exist."""
        await self._asked.listed()

    # ------------------------------------------------------------ the steps

    async def _begin(
        self, partition: Partition, known: KnownTopic, asked: Asked, step: Begin
    ) -> bool:
        """Write AR + RAR, and send start-replica to RAR - AR; return whether it was written."""
        at = partition.topic_partition
        content = with_replicas(known.content, at, step.replicas, step.reassignment)
        operations = [_set_topic(at.topic, content, known.node_version)]
        if asked.replicas is not None:
            operations.append(CheckOp(reassigned_path(at), asked.node_version))
        started = self._requests(
            StateChange.START_REPLICA, at, partition.leader_epoch, step.started
        )
        stats = await self._write([*operations, *await self._queues.operations(started)])
        if stats is None:
            return False
        self._wrote(partition, content, stats)
        moved = step.reassignment
        partition.trace(
            EventKind.REASSIGNMENT_BEGUN,
            replicas=list(step.replicas),
            adding=list(moved.adding),
            removing=list(moved.removing),
        )
        return True

    async def _complete(
        self,
        partition: Partition,
        written: Written,
        known: KnownTopic,
        asked: Asked,
        step: Complete,
    ) -> bool:
        """Write AR = RAR with the ISR in it, and send close-replica to AR - RAR, together.

        A leader that is not in RAR gives its leader path up by the same transaction. Return whether
        it was written.
        """
        at = partition.topic_partition
        if written.state is None:
            return False
        content = with_replicas(known.content, at, step.replicas, NOT_REASSIGNED)
        state = replace(written.state, isr=step.isr)
        path, version = partition_state_path(at), written.partition_epoch
        of_state: tuple[MultiOp, ...] = (CheckOp(path, version),)
        if not step.leads_on:
            of_state = without_leader(at, written, state)
        elif step.isr != written.isr:
            of_state = (SetOp(path, encode_partition_state(state), version),)
        operations = [_set_topic(at.topic, content, known.node_version), *of_state]
        if asked.replicas is not None:
            operations.append(DeleteOp(reassigned_path(at), asked.node_version))
        closed = self._requests(StateChange.CLOSE_REPLICA, at, partition.leader_epoch, step.closed)
        stats = await self._write([*operations, *await self._queues.operations(closed)])
        if stats is None:
            return False
        self._under_way.pop(at, None)
        set_stat = stats[1]
        if step.leads_on and set_stat is not None and partition.leader_epoch == state.leader_epoch:
            partition.adopt_written_isr(step.isr, PartitionEpoch(set_stat.node_version))
        self._wrote(partition, content, stats)
        partition.trace(
            EventKind.REASSIGNMENT_COMPLETED,
            replicas=list(step.replicas),
            removed=list(step.closed),
        )
        return True

    def _requests(
        self, change: StateChange, at: TopicPartition, epoch: LeaderEpoch, to: Iterable[NodeId]
    ) -> list[tuple[NodeId, StateChangeRequest]]:
        return [(broker, StateChangeRequest(change, at, epoch)) for broker in to]

    async def _write(self, operations: list[MultiOp]) -> list[Stat | None] | None:
        """Carry all operations out; None, with none of them, where something has changed."""
        try:
            return await self._session.get().multi(operations)
        except MultiFailed:
            return None

    def _wrote(self, partition: Partition, content: TopicContent, stats: list[Stat | None]) -> None:
        """Know the written topic, and its replicas, before any watch tells of them."""
        at, set_stat = partition.topic_partition, stats[0]
        if set_stat is not None:
            self._view.wrote_topic(at.topic, content, set_stat)
        partition.take_assigned(content.assignment[at])


def _set_topic(topic: str, content: TopicContent, node_version: int) -> MultiOp:
    return SetOp(topic_path(topic), encode_content(content), node_version)
