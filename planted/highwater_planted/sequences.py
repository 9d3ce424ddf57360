"""Planted: an idempotent producer's sequences are forgotten, or not looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from highwater_broker.log import log, producers
from highwater_broker.log.append_part import AppendPart, parts_of
from highwater_broker.log.producers import LogProducers
from highwater_broker.log.segment import Segment
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_broker.logic.producer_sequences import Decision, Refused, decide
from highwater_core.ids import LeaderEpoch, Offset
from highwater_planted.bug import FaultFamily, PlantedBug, Replacement


def _open_with_none(self: LogProducers, segments: Sequence[Segment], recovery_point: int) -> None:
    """Begin as if no producer had written to the log."""


def _parts_without_producers(
    batches: Any,
    base_offset: Offset,
    epochs: EpochCache,
    highest_epoch: LeaderEpoch | None,
) -> Iterator[AppendPart]:
    for part in parts_of(batches, base_offset, epochs, highest_epoch):
        part.sequenced.clear()
        yield part


def _append_repeats(*batch: Any) -> Decision:
    decision = decide(*batch)
    return decision if isinstance(decision, Refused) else None


def _accept_gaps(*batch: Any) -> Decision:
    decision = decide(*batch)
    return None if decision is Refused.OUT_OF_ORDER else decision


def _append_old_epochs(*batch: Any) -> Decision:
    decision = decide(*batch)
    return None if decision is Refused.FENCED else decision


def _cut_batches_alone(self: LogProducers, offset: int) -> None:
    """Keep what was remembered of the batches that are truncated next."""


_SHOWS_UNDER = (FaultFamily.PROCESS, FaultFamily.NETWORK)

BUGS = (
    PlantedBug(
        name="sequences_not_read_at_start",
        summary="a broker that starts again remembers no batch of any producer",
        source="own; KIP-98",
        breaks=("I20",),
        shows_under=_SHOWS_UNDER,
        replacements=(Replacement(LogProducers, "open", _open_with_none),),
    ),
    PlantedBug(
        name="sequences_not_followed",
        summary="a follower remembers no batch of any producer",
        source="own; KIP-98",
        breaks=("I20",),
        shows_under=_SHOWS_UNDER,
        replacements=(Replacement(log, "parts_of", _parts_without_producers),),
    ),
    PlantedBug(
        name="repeats_appended",
        summary="a leader appends an idempotent producer's repeated batch again",
        source="own; KIP-98",
        breaks=("I20",),
        shows_under=_SHOWS_UNDER,
        replacements=(Replacement(producers, "decide", _append_repeats),),
    ),
    PlantedBug(
        name="sequence_gaps_accepted",
        summary="a leader appends an idempotent producer's batch before the one that it follows",
        source="own; KIP-98",
        breaks=("I20",),
        shows_under=_SHOWS_UNDER,
        replacements=(Replacement(producers, "decide", _accept_gaps),),
    ),
    PlantedBug(
        name="producer_epoch_not_fenced",
        summary="a leader appends a batch of an idempotent producer's earlier epoch",
        source="own; KIP-98, KIP-360",
        breaks=("I20",),
        shows_under=_SHOWS_UNDER,
        replacements=(Replacement(producers, "decide", _append_old_epochs),),
        is_rare=True,
    ),
    PlantedBug(
        name="sequences_not_cut",
        summary="a truncation leaves what was remembered of the batches that it cuts",
        source="own; KAFKA-5342",
        breaks=("I1", "L5", "I20"),
        shows_under=_SHOWS_UNDER,
        replacements=(Replacement(LogProducers, "cut", _cut_batches_alone),),
    ),
)
