"""Decides whether an idempotent producer's batch is the next one, a repeat, or refused; pure.

Source: KIP-98, KIP-360; Kafka 3.9's ProducerAppendInfo and ProducerStateEntry.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from highwater_core.errors import ErrorCode

REMEMBERED_BATCHES = 5
"""Of each producer: the most requests in flight of Kafka's idempotent producers."""
MAX_SEQUENCE = 2**31 - 1
"""The sequence after it is 0."""


class SequencedBatch(NamedTuple):
    """A batch of one producer in the log: its first and last sequence, and its last offset.

    timestamp: the largest in its header, in ms.
    """

    producer_epoch: int
    first_sequence: int
    last_sequence: int
    last_offset: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - sequences_between(self.first_sequence, self.last_sequence)


class Refused(Enum):
    """Why a batch may not be appended."""

    OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


Decision = SequencedBatch | Refused | None
"""The earlier batch that this one repeats, a refusal, or None: append it."""

Remembered = tuple[SequencedBatch, ...]
"""A producer's newest batches of one epoch, the oldest first, at most REMEMBERED_BATCHES."""


def decide(
    known: Remembered, producer_epoch: int, first_sequence: int, last_sequence: int
) -> Decision:
    """Return the decision on a producer's batch, by its remembered batches.

    An unknown producer may begin with any sequence: its batches may have been deleted with old
    segments (KIP-360). UNKNOWN_PRODUCER_ID is therefore never answered.
    """
    if not known:
        return None
    for batch in known:
        if batch[:3] == (producer_epoch, first_sequence, last_sequence):
            return batch
    newest = known[-1]
    if producer_epoch < newest.producer_epoch:
        return Refused.FENCED
    expected = 0
    if producer_epoch == newest.producer_epoch:
        expected = sequence_after(newest.last_sequence, 1)
    return None if first_sequence == expected else Refused.OUT_OF_ORDER


def remember(known: Remembered, batch: SequencedBatch) -> Remembered:
    """Return the remembered batches with this appended one; a new epoch begins anew."""
    if known and known[-1].producer_epoch != batch.producer_epoch:
        return (batch,)
    return (*known[1 - REMEMBERED_BATCHES :], batch)


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence so many records later."""
    return (sequence + count) & MAX_SEQUENCE


def sequences_between(first: int, last: int) -> int:
    """Return the number of records between two sequences."""
    return (last - first) & MAX_SEQUENCE
