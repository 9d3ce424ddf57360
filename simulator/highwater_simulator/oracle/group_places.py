"""Finds a group's offsets partition, by ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater_broker.coordinator.logic.placement import offsets_partition
from highwater_core import znodes
from highwater_core.ids import TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.topic_znode import decode_topic
from highwater_simulator.oracle.partition_oracle import PartitionOracle

if TYPE_CHECKING:
    from highwater_simulator.world import World


class GroupPlaces:
    """The offsets partitions of groups."""

    def __init__(self, world: World, partitions: dict[TopicPartition, PartitionOracle]) -> None:
        self._world = world
        self._partitions = partitions

    def find(self, group_id: str) -> tuple[TopicPartition, PartitionOracle] | None:
        """Return the group's partition; None if there is none, or if disks lost its records.

        Acknowledged commits may then be lost as well.
        """
        path = znodes.topic_path(OFFSETS_TOPIC)
        znode = self._world.zookeeper.data(path)
        if znode is None:
            return None
        count = len(decode_topic(znode[0], OFFSETS_TOPIC).assignment)
        at = TopicPartition(OFFSETS_TOPIC, offsets_partition(group_id, count))
        partition = self._partitions.get(at)
        return None if partition is None or partition.excuses else (at, partition)

    def is_led_by(self, broker: int, group_id: str) -> bool:
        """Return whether the broker leads the partition, by ZooKeeper and by itself."""
        found = self.find(group_id)
        if found is None:
            return False
        state, hosted = self._world.partition_state(found[0]), self._world.hosted(broker, found[0])
        if state is None or hosted is None or not hosted.is_leader:
            return False
        return (state.leader, state.leader_epoch) == (broker, hosted.leader_epoch)
