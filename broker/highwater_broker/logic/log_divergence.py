"""Decides how a new follower brings its log in line with its leader's; pure.

The follower asks `first_step`; after each answer of the leader to OffsetForLeaderEpoch it
truncates as `after_answer` says, and asks again when told to.
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
    """Ask the leader where this epoch ends."""

    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class TruncateAndAskAgain:
    """Truncate to the offset, which is not yet known to agree, and ask for that older epoch."""

    offset: Offset
    leader_epoch: LeaderEpoch


def first_step(
    truncation: Truncation, cache: EpochCache, high_watermark: Offset, log_end_offset: Offset
) -> TruncateTo | AskLeader:
    """Return what a follower does before it asks anything."""
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
    """Return what a follower does with the leader's (epoch, end offset).

    An undefined end, or one that no log has, means that the leader knows nothing: the high
    watermark has to do. An answer without an epoch is of a leader before KIP-279.
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


def must_start_over(log_start_offset: Offset, log_end_offset: Offset, leader_start: Offset) -> bool:
    """Return whether a follower lets go of all its log, since its leader's begins at its end.

    Asked for an epoch from before all that it knows, a leader answers with its first epoch's
    start, which retention may have moved: where the two logs parted below it, nobody can tell.
    """
    return log_start_offset < log_end_offset == leader_start
