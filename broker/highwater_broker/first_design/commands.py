"""A broker's commands to its own replica manager, in the forms that a controller's have."""

from __future__ import annotations

from collections.abc import Sequence

from highwater_broker.first_design.leader_paths import OWN_COMMANDS, Written
from highwater_broker.replica_manager import ReplicaManager
from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    LEADER_DURING_DELETE,
    NO_BROKER_EPOCH,
    NO_EPOCH,
    NO_PARTITION_EPOCH,
    LeaderEpoch,
    NodeId,
    TopicPartition,
)
from highwater_core.messages import (
    BrokerCommand,
    BrokerEndpoints,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    PartitionMetadata,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)


class OwnCommands:
    """Numbers the commands and has them carried out, one at a time: only one task calls it."""

    def __init__(self, broker_id: NodeId, replicas: ReplicaManager) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._number = 0

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _carry_out(self, command: BrokerCommand) -> ErrorCode:
        """Return the command's error, or that of its first refused partition."""
        response = await self._replicas.carry_out(command)
        errors = (response.error, *(error for _, error in response.partition_errors))
        return next((error for error in errors if error is not ErrorCode.NONE), ErrorCode.NONE)

    async def begin(self) -> None:
        """Let checkpoints be written: all assigned replicas are known from now on."""
        await self._lead_or_follow(())

    async def host(self, at: TopicPartition, *, is_new: bool) -> bool:
        """Open or create the replica's log; return False where the disk refuses it."""
        return await self._replicas.host(at, is_new=is_new)

    async def take_role(
        self, at: TopicPartition, written: Written, assigned: tuple[NodeId, ...]
    ) -> ErrorCode:
        """Lead or follow, as the leader path says."""
        check(written.leader is not None and written.state is not None, "nobody leads")
        if written.leader is None or written.state is None:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return await self._lead_or_follow(
            (
                LeaderAndIsrPartition(
                    topic_partition=at,
                    leader=written.leader.broker,
                    leader_epoch=written.leader.leader_epoch,
                    isr=written.state.isr,
                    partition_epoch=written.partition_epoch,
                    assigned_replicas=assigned,
                ),
            )
        )

    async def _lead_or_follow(self, partitions: tuple[LeaderAndIsrPartition, ...]) -> ErrorCode:
        return await self._carry_out(
            LeaderAndIsrRequest(
                controller_id=self._broker_id,
                controller_epoch=OWN_COMMANDS,
                broker_epoch=NO_BROKER_EPOCH,
                is_init=False,
                partitions=partitions,
                correlation_id=self._next(),
            )
        )

    async def close(self, at: TopicPartition, leader_epoch: LeaderEpoch) -> ErrorCode:
        """Stop and delete the replica; with no error a power loss does not bring it back.

        Nobody asks a second time, and no start removes what ZooKeeper does not list.
        """
        folder = self._replicas.folder_of(at)
        error = await self._carry_out(
            StopReplicaRequest(
                controller_id=self._broker_id,
                controller_epoch=OWN_COMMANDS,
                broker_epoch=NO_BROKER_EPOCH,
                partitions=(StopReplicaPartition(at, True, leader_epoch),),
                correlation_id=self._next(),
            )
        )
        if error is ErrorCode.NONE and not await folder.sync():
            return ErrorCode.KAFKA_STORAGE_ERROR
        return error

    async def tell(
        self,
        live: Sequence[BrokerEndpoints],
        partitions: Sequence[PartitionMetadata],
        *,
        is_full: bool = False,
    ) -> None:
        """Give the metadata cache what it answers to clients."""
        await self._carry_out(
            UpdateMetadataRequest(
                controller_id=self._broker_id,
                controller_epoch=OWN_COMMANDS,
                broker_epoch=NO_BROKER_EPOCH,
                live_brokers=tuple(live),
                partitions=tuple(partitions),
                correlation_id=self._next(),
                is_full=is_full,
            )
        )


def metadata_of(
    at: TopicPartition, written: Written, assigned: tuple[NodeId, ...]
) -> PartitionMetadata:
    """Return the partition's metadata for clients."""
    return PartitionMetadata(
        topic_partition=at,
        leader=written.led_by,
        leader_epoch=written.leader_epoch,
        isr=written.isr,
        assigned_replicas=assigned,
        partition_epoch=written.partition_epoch,
    )


def deleted(at: TopicPartition) -> PartitionMetadata:
    """Return what removes the partition from the metadata."""
    return PartitionMetadata(at, LEADER_DURING_DELETE, NO_EPOCH, (), (), NO_PARTITION_EPOCH)
