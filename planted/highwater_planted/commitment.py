"""Planted: the high watermark, acknowledgements and consumers' reads run ahead of the ISR."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from highwater_broker import partition, replica
from highwater_broker.kafka_api.fetch import FetchHandler
from highwater_broker.log.record_batch import KeyLook, LogRefused
from highwater_broker.logic.high_watermark import next_high_watermark
from highwater_broker.logic.isr import FollowerProgress, after_fetch
from highwater_broker.partition import Partition
from highwater_broker.partition_context import AppendOutcome, ReadOutcome
from highwater_broker.roles import Following, Leading
from highwater_broker.topic_settings import TopicSettings
from highwater_core.errors import ErrorCode
from highwater_core.ids import NO_OFFSET, BrokerEpoch, LeaderEpoch, NodeId, Offset
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement

_acks_all_status = Partition.acks_all_status
_append = Partition.append
_read = Partition.read
_record_follower_fetch = Partition.record_follower_fetch
_record_progress = FetchHandler._record_progress


def _as_the_fastest(
    current: Offset,
    leader_log_end_offset: Offset,
    required_log_end_offsets: Iterable[Offset],
    *,
    frozen: bool,
) -> Offset:
    fastest = max(required_log_end_offsets, default=leader_log_end_offset)
    return next_high_watermark(current, leader_log_end_offset, [fastest], frozen=frozen)


def _of_those_that_fetched(
    current: Offset,
    leader_log_end_offset: Offset,
    required_log_end_offsets: Iterable[Offset],
    *,
    frozen: bool,
) -> Offset:
    known = [offset for offset in required_log_end_offsets if offset != NO_OFFSET]
    return next_high_watermark(current, leader_log_end_offset, known, frozen=frozen)


def _count_whoever_fetched(
    self: Partition,
    replica_id: NodeId,
    replica_epoch: BrokerEpoch,
    fetch_offset: Offset,
    now_ms: int,
) -> ErrorCode:
    role = self.role
    progress = role.followers.get(replica_id) if isinstance(role, Leading) else None
    if isinstance(role, Leading) and progress is not None:
        role.followers[replica_id] = replace(
            progress, broker_epoch=min(progress.broker_epoch, replica_epoch)
        )
    return _record_follower_fetch(self, replica_id, replica_epoch, fetch_offset, now_ms)


def _count_when_sent(
    progress: FollowerProgress,
    fetch_offset: Offset,
    leader_log_end_offset: Offset,
    broker_epoch: BrokerEpoch,
    now_ms: int,
) -> FollowerProgress:
    counted = after_fetch(progress, fetch_offset, leader_log_end_offset, broker_epoch, now_ms)
    return replace(counted, log_end_offset=leader_log_end_offset)


def _is_in_proposed_isr(self: Leading, broker_id: NodeId) -> bool:
    return broker_id in (self.isr if self.proposal is None else self.proposal.isr)


def _count_fenced_fetches(self: FetchHandler, request: Any, parts: list[Any]) -> None:
    for part in parts:
        if part.error is ErrorCode.FENCED_LEADER_EPOCH and part.partition is not None:
            part.partition.record_follower_fetch(
                request.replica_id,
                request.replica_epoch,
                part.item.fetch_offset,
                self._runtime.now_ms(),
            )
    _record_progress(self, request, parts)


def _acknowledge_at_once(
    self: Partition, end_offset: Offset, leader_epoch: LeaderEpoch
) -> ErrorCode | None:
    status = _acks_all_status(self, end_offset, leader_epoch)
    return ErrorCode.NONE if status is None else status


def _one_replica_is_enough(self: TopicSettings, topic: str) -> int:
    return 1


def _refuse_above_the_high_watermark(
    self: Partition, fetch_offset: Offset, max_bytes: int, for_follower: bool
) -> ReadOutcome:
    if for_follower or not self.serves_clients or fetch_offset <= self.high_watermark:
        return _read(self, fetch_offset, max_bytes, for_follower)
    error, start_offset = ErrorCode.OFFSET_OUT_OF_RANGE, self.log_start_offset
    return ReadOutcome(error, self.high_watermark, start_offset, b"")


def _read_to_the_end(
    self: Partition, fetch_offset: Offset, max_bytes: int, for_follower: bool
) -> ReadOutcome:
    return _read(self, fetch_offset, max_bytes, True)


def _latest_at_once(self: Partition) -> tuple[ErrorCode, Offset]:
    if not self.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_OFFSET
    return ErrorCode.NONE, self.high_watermark


def _latest_is_the_logs_end(self: Partition) -> tuple[ErrorCode, Offset]:
    if not self.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_OFFSET
    return ErrorCode.NONE, self.log_end_offset


def _append_in_any_role(
    self: Partition,
    records: bytes | memoryview,
    acks: int,
    now_ms: int,
    look: KeyLook | None = None,
) -> AppendOutcome:
    if not isinstance(self.role, Following):
        return _append(self, records, acks, now_ms, look)
    try:
        base_offset, end_offset, _ = self.log.append_as_leader(records, self.leader_epoch, now_ms)
    except LogRefused as refused:
        return AppendOutcome(refused.error)
    self.changed()
    return AppendOutcome(ErrorCode.NONE, base_offset, end_offset, self.log_start_offset)


def _as_the_leader_says(leader_high_watermark: Offset, log_end_offset: Offset) -> Offset:
    return leader_high_watermark


BUGS = (
    PlantedBug(
        name="high_watermark_ignores_slowest",
        summary="the high watermark follows the fastest ISR member instead of the slowest",
        source="own; V3 design, commit thread",
        breaks=("I4", "I2", "I1"),
        shows_under=(FaultFamily.NONE, FaultFamily.PROCESS),
        replacements=(Replacement(partition, "next_high_watermark", _as_the_fastest),),
    ),
    PlantedBug(
        name="high_watermark_skips_silent_members",
        summary="a new leader's high watermark does not wait for members that have not yet fetched",
        source='own; docs/explanation/replication.md, "Becoming leader"',
        breaks=("I4", "I2", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(partition, "next_high_watermark", _of_those_that_fetched),),
    ),
    PlantedBug(
        name="high_watermark_counts_what_was_sent",
        summary="records count as copied when they are sent, not when the next fetch confirms them",
        source="own; V3 design, commit thread",
        breaks=("I16", "I4", "I2", "I1"),
        shows_under=(FaultFamily.NONE, FaultFamily.PROCESS),
        replacements=(Replacement(partition, "after_fetch", _count_when_sent),),
    ),
    PlantedBug(
        name="high_watermark_over_proposed_isr",
        summary="a smaller ISR counts for the high watermark before it is written",
        source="KIP-497",
        breaks=("I5", "I4", "I1"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Leading, "is_in_maximal_isr", _is_in_proposed_isr),),
    ),
    PlantedBug(
        name="high_watermark_counts_stale_fetchers",
        summary="a fetch that is refused for its old leader epoch still counts as progress",
        source="own; KIP-320, KAFKA-6880",
        breaks=("I16", "I4", "I2"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.PROCESS),
        replacements=(Replacement(FetchHandler, "_record_progress", _count_fenced_fetches),),
        is_rare=True,
    ),
    PlantedBug(
        name="high_watermark_counts_earlier_registrations",
        summary="a late fetch by a broker's earlier registration counts as the present one's",
        source="KIP-903",
        breaks=("I16", "I4", "I2"),
        shows_under=(FaultFamily.NETWORK, FaultFamily.LOST_DISK),
        replacements=(Replacement(Partition, "record_follower_fetch", _count_whoever_fetched),),
        is_rare=True,
    ),
    PlantedBug(
        name="acknowledged_on_append",
        summary="acks=all is answered before the ISR has the records",
        source="own",
        breaks=("I1",),
        shows_under=(FaultFamily.PROCESS,),
        replacements=(Replacement(Partition, "acks_all_status", _acknowledge_at_once),),
    ),
    PlantedBug(
        name="min_insync_replicas_ignored",
        summary="acks=all succeeds however small the ISR is",
        source="own; KAFKA-15583",
        breaks=("I17",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(TopicSettings, "min_insync_replicas", _one_replica_is_enough),),
    ),
    PlantedBug(
        name="uncommitted_served_to_consumers",
        summary="consumers read beyond the high watermark, to the log's end",
        source="own; V3 design, section C",
        breaks=("I9",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Partition, "read", _read_to_the_end),),
    ),
    PlantedBug(
        name="consumer_refused_above_high_watermark",
        summary="a new leader whose high watermark lags calls consumers' offsets out of range",
        source="KAFKA-725, KIP-207",
        breaks=("I9",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Partition, "read", _refuse_above_the_high_watermark),),
    ),
    PlantedBug(
        name="latest_offset_told_too_early",
        summary="a new leader tells its high watermark as latest offset while it still lags",
        source="KIP-207, KAFKA-2334",
        breaks=("I9",),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Partition, "latest_offset_for_clients", _latest_at_once),),
    ),
    PlantedBug(
        name="latest_offset_is_the_logs_end",
        summary="consumers that ask for the latest offset are told the log's end",
        source="own; KIP-207",
        breaks=("I9",),
        shows_under=(FaultFamily.NONE, FaultFamily.PROCESS),
        replacements=(
            Replacement(Partition, "latest_offset_for_clients", _latest_is_the_logs_end),
        ),
    ),
    PlantedBug(
        name="deposed_leader_appends",
        summary="a broker that knows that it no longer leads still appends what clients send",
        source="own; V3 design, section C: become_follower disables writes",
        breaks=("I3", "I4", "I2"),
        shows_under=(FaultFamily.PROCESS, FaultFamily.NETWORK),
        replacements=(Replacement(Partition, "append", _append_in_any_role),),
    ),
    PlantedBug(
        name="follower_high_watermark_beyond_its_log",
        summary="a follower takes its leader's high watermark over without its own log's end",
        source='own; docs/explanation/replication.md, "The broker"',
        breaks=("I4",),
        shows_under=(FaultFamily.NONE, FaultFamily.PROCESS),
        replacements=(Replacement(replica, "follower_high_watermark", _as_the_leader_says),),
    ),
)
