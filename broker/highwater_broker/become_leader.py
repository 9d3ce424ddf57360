"""The procedure by which a broker becomes a partition's leader, or goes on in a new epoch.

It awaits nothing: no fetch or append comes between its steps.
Source: V3 design, section C become_leader; docs/explanation/replication.md, "Becoming leader".
"""

from __future__ import annotations

from dataclasses import replace

from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.logic.isr import NEVER_MS, FollowerProgress
from highwater_broker.partition import Partition
from highwater_broker.roles import CommittedIsr, Leading
from highwater_core.config import Toggles
from highwater_core.events import EventKind
from highwater_core.ids import NO_OFFSET, ControllerEpoch, NodeId
from highwater_core.messages import LeaderAndIsrPartition


def become_leader(
    partition: Partition,
    command: LeaderAndIsrPartition,
    told_by: ControllerEpoch,
    *,
    fetchers: FetcherRegistry,
    toggles: Toggles,
    now_ms: int,
) -> None:
    """Lead the partition in the command's epoch.

    Ordering: the fetcher is removed first, so that no record of the old leader is appended after
    the epoch's start was taken; waiting requests check again last.

    The epoch is stored before its first record: a disk that refuses it refuses the record too, so
    this does not prevent leading.
    """
    fetchers.remove(partition.topic_partition)

    epoch_start_offset = partition.log_end_offset
    earlier = partition.role if isinstance(partition.role, Leading) else None
    trusted = earlier if command.leader_epoch == partition.leader_epoch + 1 else None
    role = Leading(
        first_epoch=earlier.first_epoch if earlier else command.leader_epoch,
        epoch_start_offset=epoch_start_offset,
        in_sync=CommittedIsr(command.isr, command.elr),
        followers={
            replica: _progress_at_start(replica, command.isr, trusted, now_ms)
            for replica in command.assigned_replicas
            if replica != command.leader
        },
        is_open=partition.leaders_begin_open,
    )
    is_older = command.leader_epoch < partition.log.epoch_cache.latest_epoch
    if toggles.persist_epoch_on_election or is_older:
        # Older than the log's epochs: without topic ids, an earlier topic's log (row 24).
        partition.log.assign_epoch(command.leader_epoch)
    partition.take_role(role, command, told_by)
    partition.trace(
        EventKind.BECAME_LEADER,
        isr=command.isr,
        high_watermark=partition.high_watermark,
        **({} if role.is_open else {"is_open": False}),
    )

    partition.maybe_advance_high_watermark()
    partition.role_changed()


def _progress_at_start(
    replica: NodeId, isr: tuple[NodeId, ...], earlier: Leading | None, now_ms: int
) -> FollowerProgress:
    """Return the progress of a follower when the epoch starts.

    An ISR member counts as caught up now, so that it has the whole lag time to fetch. A leader of
    consecutive epochs keeps the known log ends. A new leader knows none. Nor does one that missed
    an epoch, in which followers may have truncated to another leader's log.
    """
    known = earlier.followers.get(replica) if earlier else None
    return replace(
        known or FollowerProgress(),
        log_end_offset=known.log_end_offset if known else NO_OFFSET,
        last_caught_up_ms=now_ms if replica in isr else NEVER_MS,
        last_fetch_ms=NEVER_MS,
        leader_end_at_last_fetch=NO_OFFSET,
    )
