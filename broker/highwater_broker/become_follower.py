"""The procedure by which a broker becomes a partition's follower, or goes on under a new epoch.

Source: V3 C become_follower; replication.md section 4 makeFollowers. It awaits nothing.
"""

from __future__ import annotations

from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.partition import Partition
from highwater_broker.roles import Following
from highwater_core.config import Toggles, TruncateOn, Truncation
from highwater_core.events import EventKind
from highwater_core.ids import NO_LEADER, ControllerEpoch
from highwater_core.messages import LeaderAndIsrPartition


def become_follower(
    partition: Partition,
    command: LeaderAndIsrPartition,
    told_by: ControllerEpoch,
    *,
    fetchers: FetcherRegistry,
    toggles: Toggles,
) -> None:
    """Follow the command's leader.

    Ordering: fetcher stopped, reads and writes disabled, requests that wait answered, log brought
    in line, new fetcher. With truncation by epoch the fetcher asks the leader first. Where there
    is no leader there is nobody to be in line with: the log stays, whatever the preset.
    Deviation: Kafka gives up when the leader is not known to live (KAFKA-4443); here the fetcher
    tries until it is, or until the next command.
    """
    fetchers.remove(partition.topic_partition)

    is_same_leader = partition.role == Following(command.leader)
    partition.take_role(Following(command.leader), command, told_by)
    partition.trace(
        EventKind.BECAME_FOLLOWER, leader=command.leader, high_watermark=partition.high_watermark
    )
    partition.changed()
    if command.leader == NO_LEADER:
        return

    truncates = not (is_same_leader and toggles.truncate_on is TruncateOn.LEADER_CHANGE)
    asks_leader = toggles.truncation is not Truncation.HIGH_WATERMARK
    if truncates and not asks_leader:
        partition.truncate_to(partition.high_watermark, "to the high watermark")
    fetchers.add(partition, command.leader, truncates=truncates and asks_leader)
