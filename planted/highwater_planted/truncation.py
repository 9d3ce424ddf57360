"""Planted: a new follower does not truncate its log to its leader's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from highwater_broker import fetcher, replica
from highwater_broker.fetcher import ReplicaFetcher
from highwater_broker.log.append_part import AppendResult
from highwater_broker.log.log import Log
from highwater_broker.log.open_file import OpenFile
from highwater_broker.logic.epoch_cache import EpochCache, EpochEnd
from highwater_broker.logic.log_divergence import TruncateAndAskAgain, TruncateTo, after_answer
from highwater_core.config import Truncation
from highwater_core.ids import LeaderEpoch, Offset
from highwater_core.ports import Buffer
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_truncate_to = Log.truncate_to
_append_as_follower = Log.append_as_follower


def _keep_all(
    truncation: Truncation, cache: EpochCache, high_watermark: Offset, log_end_offset: Offset
) -> TruncateTo:
    return TruncateTo(log_end_offset)


def _cut_below_high_watermark(
    truncation: Truncation,
    answer: EpochEnd,
    cache: EpochCache,
    high_watermark: Offset,
    log_end_offset: Offset,
) -> TruncateTo | TruncateAndAskAgain:
    step = after_answer(truncation, answer, cache, high_watermark, log_end_offset)
    return replace(step, offset=Offset(max(0, min(step.offset, high_watermark - 1))))


def _keep_epochs(self: Log, offset: Offset) -> bool:
    epochs = self.epoch_cache
    is_cut = _truncate_to(self, offset)
    self._set_epochs(epochs)
    return is_cut


def _append_any_epoch(
    self: Log, records: Buffer, now_ms: int, highest_epoch: LeaderEpoch | None = None
) -> AppendResult:
    return _append_as_follower(self, records, now_ms)


def _lend_for_ever(self: OpenFile, end: int, take_back: Callable[[], None]) -> None:
    """Announce no truncation: sendfile sends the file's contents of the moment."""


def _keep_the_log(
    log_start_offset: Offset, log_end_offset: Offset, leader_start: Offset, *, agrees: bool
) -> bool:
    return False


def _start_over_where_the_leader_began(
    log_start_offset: Offset, log_end_offset: Offset, leader_start: Offset, *, agrees: bool
) -> bool:
    return log_start_offset == leader_start < log_end_offset


def _believe_any_answer(self: ReplicaFetcher, followed: object) -> bool:
    return True


BUGS = (
    PlantedBug(
        name="truncate_nothing",
        summary="a new follower fetches from its log's end without asking where it diverged",
        source="own; V3 design, section C become_follower",
        breaks=("I3", "I16", "I2"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(fetcher, "first_step", _keep_all),),
    ),
    PlantedBug(
        name="truncate_below_high_watermark",
        summary="a new follower cuts one committed batch more than its leader's answer asks for",
        source="own",
        breaks=("I11", "I2", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(fetcher, "after_answer", _cut_below_high_watermark),),
    ),
    PlantedBug(
        name="truncate_to_high_watermark",
        summary="a new follower cuts to its own high watermark, which lags",
        source="KIP-101, KAFKA-1211",
        breaks=("I11", "I2", "I1", "I3"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        toggles={"truncation": "high_watermark"},
    ),
    PlantedBug(
        name="truncate_by_offset_only",
        summary="the answer to OffsetForLeaderEpoch has no epoch: fast elections diverge",
        source="KIP-279, KAFKA-6361",
        breaks=("I3", "I2"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        toggles={"truncation": "leader_epoch_offset_only"},
        is_rare=True,
    ),
    PlantedBug(
        name="truncate_on_leader_change_only",
        summary="a follower that missed an epoch and meets its old leader again cuts nothing",
        source="KAFKA-7164",
        breaks=("I3", "I2"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        toggles={"truncate_on": "leader_change"},
        is_rare=True,
    ),
    PlantedBug(
        name="epoch_not_persisted_on_election",
        summary="a new leader enters its epoch in the cache with its first append only",
        source="KAFKA-7415",
        breaks=("I10", "I11", "I1"),
        shows_under=(FaultFamily.NONE, FaultFamily.PROCESS),
        toggles={"persist_epoch_on_election": False},
    ),
    PlantedBug(
        name="epoch_cache_not_truncated",
        summary="the log is cut and the epoch cache keeps the epochs that were cut with it",
        source="own; KIP-101",
        breaks=("I10", "I3"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Log, "truncate_to", _keep_epochs),),
    ),
    PlantedBug(
        name="newer_epoch_appended",
        summary="a deposed leader sends what replaced the records; its follower appends it",
        source="KAFKA-18723",
        breaks=("I3", "I10", "I16"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        replacements=(
            Replacement(Log, "append_as_follower", _append_any_epoch),
            Replacement(OpenFile, "lend", _lend_for_ever),
        ),
        is_rare=True,
    ),
    PlantedBug(
        name="divergence_below_start_kept",
        summary="a follower keeps what it had below its leader's log start, where the two may part",
        source="own; KIP-101",
        breaks=("I3", "I2"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(replica, "must_start_over", _keep_the_log),),
        is_rare=True,
    ),
    PlantedBug(
        name="follower_starts_over_too_high",
        summary="a follower whose log begins where its leader's does starts over at its own end",
        source="own; KIP-101",
        breaks=("I11",),
        shows_under=(FaultFamily.NONE,),
        replacements=(Replacement(replica, "must_start_over", _start_over_where_the_leader_began),),
    ),
    PlantedBug(
        name="late_answer_taken",
        summary="a fetcher takes an answer of before the command that gave it another role",
        source="own",
        breaks=("I11", "I3", "I2"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        replacements=(Replacement(ReplicaFetcher, "_is_current", _believe_any_answer),),
        is_rare=True,
    ),
    PlantedBug(
        name="fetch_not_fenced",
        summary="fetches carry no leader epoch: a zombie's followers count, and truncation races",
        source="KIP-320, KAFKA-6880",
        breaks=("I16", "I3", "I4"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        toggles={"fence_fetch_by_leader_epoch": False},
        is_rare=True,
    ),
)
