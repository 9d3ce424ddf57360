"""Decides which followers count, are caught up, leave the ISR and may join it. Pure.

Source: docs/explanation/replication.md, "ISR"; KAFKA-7152 (a follower at the leader's end never
lags); KAFKA-7128 (join at the start of the leader's epoch); KIP-841 and KIP-903 (broker epochs);
KAFKA-1097 and KAFKA-1382.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from highwater_core.config import IsrJoin
from highwater_core.ids import NO_BROKER_EPOCH, NO_OFFSET, BrokerEpoch, NodeId, Offset
from highwater_core.znodes import PartitionLeadership

NEVER_MS = -1


@dataclass(slots=True)
class FollowerProgress:
    """A leader's knowledge of one follower in its present leadership.

    The times of a follower that fetches again at the leader's end are changed in place: that is
    most fetches of most partitions.

    Units: log_end_offset is the offset of its last fetch, NO_OFFSET before the first; the _ms
    fields are the leader's monotonic milliseconds.
    """

    log_end_offset: Offset = NO_OFFSET
    last_caught_up_ms: int = NEVER_MS
    last_fetch_ms: int = NEVER_MS
    leader_end_at_last_fetch: Offset = NO_OFFSET
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH
    """The incarnation that fetched last (KIP-903)."""
    barred_until_ms: int = 0
    """The controller called it ineligible; it is not proposed again before this time."""


def after_fetch(
    progress: FollowerProgress,
    fetch_offset: Offset,
    leader_log_end_offset: Offset,
    broker_epoch: BrokerEpoch,
    now_ms: int,
) -> FollowerProgress:
    """Return the follower's progress after a fetch at fetch_offset: it has all records below.

    It was last caught up now if it fetches at the leader's end; at its previous fetch if it now
    fetches at the leader's end of that time; else as before.
    """
    if fetch_offset >= leader_log_end_offset:
        caught_up_ms = now_ms
    elif progress.last_fetch_ms != NEVER_MS and fetch_offset >= progress.leader_end_at_last_fetch:
        caught_up_ms = progress.last_fetch_ms
    else:
        caught_up_ms = progress.last_caught_up_ms
    return FollowerProgress(
        log_end_offset=fetch_offset,
        last_caught_up_ms=max(progress.last_caught_up_ms, caught_up_ms),
        last_fetch_ms=now_ms,
        leader_end_at_last_fetch=leader_log_end_offset,
        broker_epoch=broker_epoch,
        barred_until_ms=progress.barred_until_ms,
    )


def is_caught_up(progress: FollowerProgress, lag_time_max_ms: int, now_ms: int) -> bool:
    """Return whether the follower was at the leader's end within the allowed lag."""
    if progress.last_caught_up_ms == NEVER_MS:
        return False
    return now_ms - progress.last_caught_up_ms <= lag_time_max_ms


def lagging_members(
    leader: NodeId,
    isr: tuple[NodeId, ...],
    followers: Mapping[NodeId, FollowerProgress],
    leader_log_end_offset: Offset,
    lag_time_max_ms: int,
    now_ms: int,
) -> tuple[NodeId, ...]:
    """Return the ISR members that must leave, in the ISR's order.

    A member lags when it is both not caught up within the lag and not at the leader's end: on an
    idle partition no member lags (KAFKA-7152).
    """
    unknown = FollowerProgress()
    return tuple(
        member
        for member in isr
        if member != leader
        and followers.get(member, unknown).log_end_offset != leader_log_end_offset
        and not is_caught_up(followers.get(member, unknown), lag_time_max_ms, now_ms)
    )


def progress_of(
    fetcher: NodeId, followers: Mapping[NodeId, FollowerProgress], *, refuses_unassigned: bool
) -> FollowerProgress | None:
    """Return the progress of a fetching follower; None where its fetch does not count.

    followers: those that are assigned. Without the fix of KAFKA-1097 whoever fetches counts, also
    a replica that was moved away and has not been told yet.
    """
    known = followers.get(fetcher)
    return FollowerProgress() if known is None and not refuses_unassigned else known


class AfterConflict(Enum):
    """What a leader does once its ISR write has met another version of the state."""

    ADOPT = "adopt"
    WITHDRAW = "withdraw"
    KEEP_OPEN = "keep open"


def after_conflict(
    written: PartitionLeadership, mine: PartitionLeadership, *, adopts_own: bool
) -> AfterConflict:
    """Return what follows from the state that is written in place of mine, or by me.

    Equal data are the leader's own write, whose reply was lost; without the fix of KAFKA-1382 they
    count as another's. Over a newer leadership the proposal stays open: it may have been written
    before the controller elected from it.
    """
    if not adopts_own:
        return AfterConflict.WITHDRAW
    if written == mine:
        return AfterConflict.ADOPT
    is_newer = written.leader_epoch > mine.leader_epoch
    return AfterConflict.KEEP_OPEN if is_newer else AfterConflict.WITHDRAW


def may_join(
    follower_log_end_offset: Offset,
    high_watermark: Offset,
    epoch_start_offset: Offset,
    rule: IsrJoin,
) -> bool:
    """Return whether a follower has enough of the log to be in sync.

    Reaching the high watermark is not enough while that is below the previous leader's committed
    records; the start of the leader's own epoch is above all of them (KAFKA-7128).
    """
    if follower_log_end_offset < high_watermark:
        return False
    match rule:
        case IsrJoin.HIGH_WATERMARK:
            return True
        case IsrJoin.HIGH_WATERMARK_AND_EPOCH_START:
            return follower_log_end_offset >= epoch_start_offset


def is_eligible(
    fetched_with: BrokerEpoch, registered: BrokerEpoch | None, *, checks_broker_epoch: bool
) -> bool:
    """Return whether the fetching incarnation is the registered one (KIP-903).

    registered: None for a broker that is not known to be live. A fetch without an epoch may be of
    any incarnation, also of one that has lost its disk since: it does not count.
    """
    if not checks_broker_epoch:
        return True
    if registered is None:
        return False
    return fetched_with != NO_BROKER_EPOCH and fetched_with == registered
