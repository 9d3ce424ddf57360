"""Which batch of an idempotent producer is the next, a repeat, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater_broker.logic.producer_sequences import (
    MAX_SEQUENCE,
    REMEMBERED_BATCHES,
    Refused,
    Remembered,
    SequencedBatch,
    decide,
    remember,
    sequence_after,
    sequences_between,
)

APPEND = None


def batch(
    first: int, last: int, *, producer_epoch: int = 0, last_offset: int = 100
) -> SequencedBatch:
    return SequencedBatch(producer_epoch, first, last, last_offset, timestamp=1_000)


KNOWN: Remembered = tuple(batch(n, n + 1, last_offset=100 + n) for n in (10, 12, 14, 16, 18))
"""Five batches of two records, of epoch 0, with the sequences 10 to 19."""
AT_THE_END = (batch(MAX_SEQUENCE - 2, MAX_SEQUENCE),)
OVER_THE_END = (batch(MAX_SEQUENCE - 1, 1, last_offset=103),)


@pytest.mark.parametrize(
    ("known", "producer_epoch", "first", "last", "decision"),
    [
        # A producer of whom nothing is known begins anywhere (KIP-360).
        ((), 0, 0, 0, APPEND),
        ((), 0, 17, 18, APPEND),
        ((), 5, 17, 18, APPEND),
        # The next, a gap, a step back.
        (KNOWN, 0, 20, 20, APPEND),
        (KNOWN, 0, 20, 500, APPEND),
        (KNOWN, 0, 21, 21, Refused.OUT_OF_ORDER),
        (KNOWN, 0, 19, 19, Refused.OUT_OF_ORDER),
        (KNOWN, 0, 19, 20, Refused.OUT_OF_ORDER),
        (KNOWN, 0, 0, 0, Refused.OUT_OF_ORDER),
        # Repeats of each that is remembered, whole and as they were.
        *((KNOWN, 0, each.first_sequence, each.last_sequence, each) for each in KNOWN),
        (KNOWN, 0, 18, 18, Refused.OUT_OF_ORDER),
        (KNOWN, 0, 16, 19, Refused.OUT_OF_ORDER),
        (KNOWN, 0, 8, 9, Refused.OUT_OF_ORDER),
        # A newer epoch begins with 0; an older one is fenced, even if it repeats a batch.
        (KNOWN, 1, 0, 3, APPEND),
        (KNOWN, 7, 0, 0, APPEND),
        (KNOWN, 1, 20, 20, Refused.OUT_OF_ORDER),
        (KNOWN, 1, 18, 19, Refused.OUT_OF_ORDER),
        ((batch(0, 3, producer_epoch=2),), 1, 4, 4, Refused.FENCED),
        ((batch(0, 3, producer_epoch=2),), 1, 0, 3, Refused.FENCED),
        ((batch(0, 3, producer_epoch=2),), 2, 0, 3, batch(0, 3, producer_epoch=2)),
        # After the last sequence comes 0.
        (AT_THE_END, 0, 0, 0, APPEND),
        (AT_THE_END, 0, 1, 1, Refused.OUT_OF_ORDER),
        (AT_THE_END, 0, MAX_SEQUENCE - 2, MAX_SEQUENCE, AT_THE_END[0]),
        (OVER_THE_END, 0, 2, 2, APPEND),
        (OVER_THE_END, 0, 0, 0, Refused.OUT_OF_ORDER),
        (OVER_THE_END, 0, MAX_SEQUENCE - 1, 1, OVER_THE_END[0]),
    ],
)
def test_the_outcome_of_a_batch(
    known: Remembered,
    producer_epoch: int,
    first: int,
    last: int,
    decision: SequencedBatch | Refused | None,
) -> None:
    assert decide(known, producer_epoch, first, last) == decision


def test_the_newest_five_are_remembered() -> None:
    more = remember(KNOWN, batch(20, 21))
    assert more == (*KNOWN[1:], batch(20, 21))
    assert remember((), batch(3, 4)) == (batch(3, 4),)


def test_a_new_epoch_is_remembered_alone() -> None:
    assert remember(KNOWN, batch(0, 1, producer_epoch=1)) == (batch(0, 1, producer_epoch=1),)


def test_a_batch_that_goes_over_the_last_sequence_knows_its_first_offset() -> None:
    assert OVER_THE_END[0].first_offset == 100


@given(first=st.integers(0, MAX_SEQUENCE), count=st.integers(0, 2**20))
def test_sequences_are_counted_over_the_end(first: int, count: int) -> None:
    last = sequence_after(first, count)
    assert 0 <= last <= MAX_SEQUENCE
    assert sequences_between(first, last) == count


@given(
    start=st.sampled_from([0, 5, MAX_SEQUENCE - 7, MAX_SEQUENCE]),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    attempts=st.lists(st.tuples(st.integers(0, 11), st.integers(1, 3)), max_size=40),
)
def test_however_batches_are_repeated_each_is_in_the_log_once_and_in_order(
    start: int, sizes: list[int], attempts: list[tuple[int, int]]
) -> None:
    """A producer sends its batches in any order and number, with at most five in flight."""
    batches, sequence = [], start
    for size in sizes:
        batches.append((sequence, sequence_after(sequence, size - 1)))
        sequence = sequence_after(sequence, size)
    known: Remembered = ()
    log: list[tuple[int, int]] = []
    for number, times in [(0, 1), *attempts]:
        for _ in range(times):
            if not len(log) - REMEMBERED_BATCHES <= number < len(batches):
                continue  # older than a producer's batches in flight
            first, last = batches[number]
            decision = decide(known, 0, first, last)
            if decision is APPEND:
                known = remember(known, batch(first, last, last_offset=len(log)))
                log.append((first, last))
            elif isinstance(decision, SequencedBatch):
                assert log[decision.last_offset] == (first, last)
            else:
                assert number > len(log)
    assert log == batches[: len(log)]
