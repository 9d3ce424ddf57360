"""The procedure by which a broker becomes a partition's follower, or follows in a new epoch.

It awaits nothing.
Source: V3 design, section C become_follower; docs/explanation/replication.md, "Becoming follower".
"""

from __future__ import annotations

from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.log.record_batch import LogRefused
from highwater_broker.partition import Partition
from highwater_broker.roles import Following
from highwater_core.config import Toggles, TruncateOn, Truncation
from highwater_core.errors import ErrorCode
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

    Ordering: fetcher stopped, reads and writes disabled, waiting requests answered, log truncated,
    new fetcher. With truncation by epoch the fetcher asks the leader first. Without a leader the
    log stays as it is, in every preset.
    Deviation: Kafka gives up when the leader is not known to live, and does not even take the epoch
    (KAFKA-4443, KAFKA-1647). Here that is a toggle's value of no preset: the fetcher tries until
    the leader is known, or until the next command.
    """
    if gives_up(is_known=fetchers.knows(command.leader), toggles=toggles):
        partition.trace(
            EventKind.REQUEST_REFUSED,
            request="LeaderAndIsr",
            error=ErrorCode.LEADER_NOT_AVAILABLE.name,
            leader=command.leader,
        )
        return
    is_truncation_due = fetchers.remove(partition.topic_partition)

    is_same_leader = partition.role == Following(command.leader)
    partition.take_role(Following(command.leader), command, told_by)
    partition.trace(
        EventKind.BECAME_FOLLOWER, leader=command.leader, high_watermark=partition.high_watermark
    )
    partition.role_changed()
    if command.leader == NO_LEADER:
        return

    is_only_on_change = toggles.truncate_on is TruncateOn.LEADER_CHANGE
    truncates = is_truncation_due or not (is_same_leader and is_only_on_change)
    if truncates and toggles.truncation is Truncation.HIGH_WATERMARK:
        # Where the disk refuses, the fetcher retries until it accepts.
        truncates = not _is_truncated_to_high_watermark(partition)
    is_in_sync = partition.broker_id in command.isr
    fetchers.add(partition, command.leader, truncates=truncates, is_in_sync=is_in_sync)


def gives_up(*, is_known: bool, toggles: Toggles) -> bool:
    """Return whether the command is dropped: the leader, or nobody, is not known to live."""
    return not is_known and not toggles.follow_unknown_leader


def _is_truncated_to_high_watermark(partition: Partition) -> bool:
    try:
        partition.truncate_to(partition.high_watermark, "to the high watermark")
    except LogRefused as refused:
        partition.trace(EventKind.BAD_INPUT_MET, where="truncation", what=str(refused))
        return False
    return True
