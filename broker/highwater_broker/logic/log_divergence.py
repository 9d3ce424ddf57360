"""Decides how a new follower truncates its log to its leader's; pure.

The follower begins with `first_step`. After each OffsetForLeaderEpoch answer of the leader
`after_answer` decides on a truncation and a further request.
Source: docs/explanation/replication.md, "Truncation"; KIP-101, KIP-279.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater_broker.logic.epoch_cache import EpochCache, EpochEnd
from highwater_core.config import Truncation
from highwater_core.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Truncate to the offset, then fetch: the log agrees with the leader's below it."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class AskLeader:
    """Ask the leader for this epoch's end."""

    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class TruncateAndAskAgain:
    """Truncate to the offset, where the logs may still differ, and ask for that older epoch."""

    offset: Offset
    leader_epoch: LeaderEpoch


def first_step(
    truncation: Truncation, cache: EpochCache, high_watermark: Offset, log_end_offset: Offset
) -> TruncateTo | AskLeader:
    """Return the follower's first step."""
    if truncation is Truncation.HIGH_WATERMARK or cache.latest_epoch == NO_EPOCH:
        return TruncateTo(min(high_watermark, log_end_offset))
    return AskLeader(cache.latest_epoch)


def after_answer(
    truncation: Truncation,
    answer: EpochEnd,
    cache: EpochCache,
    high_watermark: Offset,
    log_end_offset: Offset,
) -> TruncateTo | TruncateAndAskAgain:
    """Return the follower's step after the leader's (epoch, end offset).

    An undefined end, or an impossible one, means that the leader does not know the epoch: then
    truncate to the high watermark. An answer without an epoch is of a leader before KIP-279.
    """
    if answer.end_offset < 0:
        return TruncateTo(min(high_watermark, log_end_offset))
    if truncation is not Truncation.LEADER_EPOCH or answer.leader_epoch == NO_EPOCH:
        return TruncateTo(min(answer.end_offset, log_end_offset))
    own = cache.end_offset_for(answer.leader_epoch, log_end_offset)
    if own.end_offset == NO_OFFSET:
        return TruncateTo(min(answer.end_offset, log_end_offset))
    if own.leader_epoch == answer.leader_epoch:
        return TruncateTo(min(own.end_offset, answer.end_offset, log_end_offset))
    offset = min(own.end_offset, log_end_offset)
    older_epoch = cache.truncate_from_end(offset).latest_epoch
    if older_epoch == NO_EPOCH:
        return TruncateTo(min(offset, high_watermark))
    return TruncateAndAskAgain(offset, older_epoch)


def drops_log(leader_start: Offset, log_end_offset: Offset, *, only_below_start: bool) -> bool:
    """Return whether a follower out of its leader's range begins anew at the leader's start.

    The leader's end was not below the follower's when it answered. Without the fix of KAFKA-2143
    that is enough: the leader may have grown since it refused the fetch.
    """
    return leader_start > log_end_offset or not only_below_start


def must_start_over(
    log_start_offset: Offset, log_end_offset: Offset, leader_start: Offset, *, agrees: bool
) -> bool:
    """Return whether a follower drops its whole log, since its leader's begins at its end.

    For an epoch before all that it knows, a leader answers with its first epoch's start, which
    retention may have moved: then it is unknown where the logs diverged below.

    agrees: whether this leader answered a fetch of the log as it is, or as it grew from, while its
    own began below the end. Then the two did not diverge: what the follower holds is committed, and
    retention has let go of it at the leader.
    """
    return not agrees and log_start_offset < log_end_offset == leader_start
