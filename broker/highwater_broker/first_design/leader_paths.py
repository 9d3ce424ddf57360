"""Who leads, in ZooKeeper: leader paths and partitions' states; and the election on them.

Source: the first design (V2), becomeLeader and startReplica; docs/decisions/0010.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from highwater_broker.current_session import CurrentSession
from highwater_broker.first_design.told_once import ToldOnce
from highwater_core.first_design_znodes import (
    LeaderPath,
    decode_leader,
    decode_reassigned,
    encode_leader,
    leader_path,
    reassigned_path,
)
from highwater_core.ids import (
    NO_EPOCH,
    NO_LEADER,
    NO_PARTITION_EPOCH,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.ports import (
    ANY_VERSION,
    CreateOp,
    DeleteOp,
    MultiFailed,
    MultiOp,
    NodeExists,
    NoNode,
    SetOp,
    Stat,
)
from highwater_core.znodes import (
    MalformedZnode,
    PartitionLeadership,
    decode_partition_state,
    encode_partition_state,
    partition_path,
    partition_state_path,
    partitions_path,
)

OWN_COMMANDS = ControllerEpoch(1)
"""The controller epoch of a broker's commands to itself; there is no controller."""


@dataclass(frozen=True, slots=True)
class Written:
    """What ZooKeeper has about a partition.

    leader: None where no leader path is there. is_own: the path is of this broker's session.
    session_id: whose path it is, 0 without one.
    """

    leader: LeaderPath | None = None
    is_own: bool = False
    state: PartitionLeadership | None = None
    partition_epoch: PartitionEpoch = NO_PARTITION_EPOCH
    session_id: int = 0

    @property
    def led_by(self) -> NodeId:
        return self.leader.broker if self.leader else NO_LEADER

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.state.leader_epoch if self.state else NO_EPOCH

    @property
    def isr(self) -> tuple[NodeId, ...]:
        return self.state.isr if self.state else ()


class LeaderPaths:
    """Reads and writes them in the present session."""

    def __init__(self, broker_id: NodeId, session: CurrentSession, told: ToldOnce) -> None:
        self._broker_id = broker_id
        self._session = session
        self._told = told

    async def read(self, at: TopicPartition) -> Written | None:
        """Read and watch both znodes; None where one of them is damaged, which is traced.

        A leader path without a session is damaged: nobody would remove it after its leader's death.
        So is one that does not fit the state: both are written together.
        """
        path, state_path = leader_path(at), partition_state_path(at)
        while True:
            found, written = await self._get(path), await self._get(state_path)
            damaged = path, found
            try:
                leader = decode_leader(found[0], path) if found else None
                damaged = state_path, written
                state = decode_partition_state(written[0], state_path) if written else None
            except MalformedZnode as fault:
                where, znode = damaged
                self._told.tell(where, str(fault), znode[1].mzxid if znode else -1)
                return None
            if found is None or leader is None:
                return Written(None, False, state, _version(written))
            fault_of_path = _fault(leader, found[1], state)
            if not fault_of_path:
                is_own = found[1].ephemeral_owner == self._session.get().session_id
                return Written(leader, is_own, state, _version(written), found[1].ephemeral_owner)
            again = await self._get(path)
            if again is not None and again[1].czxid == found[1].czxid:
                self._told.tell(path, fault_of_path, found[1].mzxid)
                return None

    async def _get(self, path: str) -> tuple[bytes, Stat] | None:
        """Return the znode, None where there is none; it is watched in both cases."""
        while True:
            with suppress(NoNode):
                return await self._session.get().get(path, watch=True)
            if await self._session.get().exists(path, watch=True) is None:
                return None

    async def elect(
        self, at: TopicPartition, before: Written, epoch: LeaderEpoch, isr: tuple[NodeId, ...]
    ) -> Written | None:
        """Make this broker the leader in that epoch; None where another was first.

        Leader path and state are written together, the state on the version that was read.
        isr: the members of the one that was read that are assigned; without this broker it leads
        alone.
        """
        isr = isr if self._broker_id in isr else (self._broker_id,)
        leader = LeaderPath(self._broker_id, epoch)
        state = PartitionLeadership(self._broker_id, epoch, OWN_COMMANDS, isr)
        data, path = encode_partition_state(state), partition_state_path(at)
        operations: tuple[MultiOp, ...] = (
            CreateOp(leader_path(at), encode_leader(leader), ephemeral=True),
            SetOp(path, data, before.partition_epoch) if before.state else CreateOp(path, data),
        )
        try:
            if before.state is None:
                await self._make_parents(at)
            stats = await self._session.get().multi(operations)
        except (MultiFailed, NoNode):  # another was first, or the topic is gone
            return None
        set_stat = stats[1] if before.state else None
        version = set_stat.node_version if set_stat else 0
        return Written(leader, True, state, PartitionEpoch(version))

    async def _make_parents(self, at: TopicPartition) -> None:
        """Create the znodes above a state; a topic that somebody wrote by hand has none.

        Raises:
            NoNode: the topic is gone; it must not be created again.
        """
        for path in (partitions_path(at.topic), partition_path(at)):
            with suppress(NodeExists):
                await self._session.get().create(path, b"")

    async def give_up(self, at: TopicPartition) -> None:
        """Remove the leader path if it is of this session; nobody leads in the next epoch."""
        while (written := await self.read(at)) is not None and written.is_own:
            if written.state is None:
                return
            operations = without_leader(at, written, written.state)
            with suppress(MultiFailed):  # the ISR was written meanwhile
                await self._session.get().multi(operations)

    async def write_catching_up(
        self, at: TopicPartition, leader: LeaderPath, catching_up: tuple[NodeId, ...]
    ) -> None:
        """Write CUR and RAR into this broker's leader path, after its take-over."""
        path = leader_path(at)
        stat = await self._session.get().exists(path)
        if stat is None or stat.ephemeral_owner != self._session.get().session_id:
            return
        data = encode_leader(leader, catching_up, await self._reassigned(at))
        with suppress(NoNode):
            await self._session.get().set(path, data, stat.node_version)

    async def _reassigned(self, at: TopicPartition) -> tuple[NodeId, ...]:
        """Return RAR, () where no reassignment is asked for."""
        path = reassigned_path(at)
        try:
            data, stat = await self._session.get().get(path)
        except NoNode:
            return ()
        try:
            return decode_reassigned(data, path)
        except MalformedZnode as fault:
            self._told.tell(path, str(fault), stat.mzxid)
            return ()


def without_leader(
    at: TopicPartition, written: Written, state: PartitionLeadership
) -> tuple[MultiOp, ...]:
    """Return what removes the leader path, and writes the state so: nobody leads, next epoch."""
    epoch = LeaderEpoch(state.leader_epoch + 1)
    data = encode_partition_state(replace(state, leader=NO_LEADER, leader_epoch=epoch))
    return (
        DeleteOp(leader_path(at), ANY_VERSION),
        SetOp(partition_state_path(at), data, written.partition_epoch),
    )


def _version(written: tuple[bytes, Stat] | None) -> PartitionEpoch:
    return PartitionEpoch(written[1].node_version) if written else NO_PARTITION_EPOCH


def _fault(leader: LeaderPath, stat: Stat, state: PartitionLeadership | None) -> str:
    """Return what is wrong with a leader path beside its state; "" where nothing is."""
    if not stat.ephemeral_owner:
        return "a leader path without a session"
    written = (state.leader, state.leader_epoch) if state else None
    if written != (leader.broker, leader.leader_epoch):
        return (
            f"broker {leader.broker} leads in epoch {leader.leader_epoch}, by the state {written}"
        )
    return ""
