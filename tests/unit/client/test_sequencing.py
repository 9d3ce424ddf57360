"""An idempotent producer's sequences: the same in every try, and anew after a missing one."""

from __future__ import annotations

from highwater_client.batches import PartitionQueue, PendingBatch, PendingRecord
from highwater_client.outcomes import judge_answer, judge_failure
from highwater_client.sequencing import MAX_PRODUCER_EPOCH, MAX_SEQUENCE, Sequencer
from highwater_core.errors import ErrorCode
from highwater_core.ports import CallFailed
from highwater_wire.kafka.record_batch import parse_header

PRODUCER = 7
DONE = judge_answer(ErrorCode.NONE)
OUT_OF_ORDER = judge_answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
LOST = judge_failure(CallFailed("the answer was lost", sent=True))


def _record(number: int) -> PendingRecord:
    return PendingRecord(
        number, f"v{number}", queued_ms=0, deadline_ms=9, timestamp_ms=0, on_done=None
    )


def batch_of(number: int, count: int = 1) -> PendingBatch:
    return PendingBatch(number, [_record(each) for each in range(count)])


def numbered(sequencer: Sequencer, *batches: PendingBatch) -> list[tuple[int, int]]:
    """Have the batches leave; return each one's epoch and first sequence."""
    for batch in batches:
        sequencer.number(batch, PRODUCER)
    headers = [parse_header(batch.data) for batch in batches]
    assert {header.producer_id for header in headers} == {PRODUCER}
    return [(header.producer_epoch, header.base_sequence) for header in headers]


def test_each_record_has_the_next_sequence_and_keeps_it() -> None:
    sequencer = Sequencer()
    first, second = batch_of(0, 3), batch_of(1)
    assert numbered(sequencer, first, second) == [(0, 0), (0, 3)]
    sequencer.judged(first, LOST)
    assert numbered(sequencer, first) == [(0, 0)]


def test_sequences_wrap() -> None:
    sequencer = Sequencer()
    sequencer._next_sequence = MAX_SEQUENCE
    assert numbered(sequencer, batch_of(0, 2), batch_of(1)) == [(0, MAX_SEQUENCE), (0, 1)]


def test_one_is_in_flight_until_brokers_know_the_producer_id() -> None:
    sequencer, queue = Sequencer(), PartitionQueue("t", 0)
    first, second = batch_of(0), batch_of(1)
    assert sequencer.may_send(queue)
    numbered(sequencer, first)
    assert not sequencer.may_send(queue)
    sequencer.judged(first, LOST)
    queue.retries = [first]
    assert sequencer.may_send(queue)
    numbered(sequencer, first)
    sequencer.judged(first, DONE)
    sequencer.acknowledged(first)
    numbered(sequencer, second)
    assert sequencer.may_send(queue)


def test_no_more_have_a_sequence_than_brokers_remember() -> None:
    sequencer, queue = Sequencer(), PartitionQueue("t", 0)
    batches = [batch_of(number) for number in range(5)]
    numbered(sequencer, *batches)
    assert not sequencer.may_send(queue)
    sequencer.judged(batches[0], DONE)
    sequencer.acknowledged(batches[0])
    assert sequencer.may_send(queue)


def test_one_that_came_before_an_older_one_is_sent_again() -> None:
    sequencer = Sequencer()
    older, younger = batch_of(0), batch_of(1)
    numbered(sequencer, older, younger)
    assert sequencer.judged(younger, OUT_OF_ORDER).may_retry
    assert not sequencer.judged(older, OUT_OF_ORDER).may_retry


def test_after_one_is_given_up_a_new_epoch_begins_once_nothing_is_in_flight() -> None:
    sequencer, queue = Sequencer(), PartitionQueue("t", 0)
    given_up, in_flight, uncertain, again = (batch_of(number) for number in range(4))
    numbered(sequencer, given_up, in_flight, uncertain, again)
    sequencer.judged(given_up, LOST)
    sequencer.given_up(given_up)
    assert not sequencer.may_send(queue)
    assert sequencer.begin_anew(queue) == []
    for batch in (in_flight, uncertain, again):
        sequencer.judged(batch, OUT_OF_ORDER)
    sequencer.given_up(in_flight)
    uncertain.may_be_there = True
    queue.retries = [uncertain, again]
    assert sequencer.begin_anew(queue) == [uncertain]
    assert queue.retries == [again]
    assert sequencer.may_send(queue)
    assert numbered(sequencer, again) == [(1, 0)]


def test_after_the_last_epoch_the_partition_goes_on_under_another_id() -> None:
    sequencer, queue = Sequencer(), PartitionQueue("t", 0)
    sequencer._producer_epoch = MAX_PRODUCER_EPOCH
    given_up, next_one, younger = (batch_of(number) for number in range(3))
    assert numbered(sequencer, given_up) == [(MAX_PRODUCER_EPOCH, 0)]
    sequencer.judged(given_up, LOST)
    sequencer.given_up(given_up)
    assert sequencer.used_up_id is None
    sequencer.begin_anew(queue)
    assert sequencer.used_up_id == PRODUCER
    sequencer.number(next_one, PRODUCER + 1)
    sequencer.number(younger, PRODUCER + 2)
    headers = [parse_header(batch.data) for batch in (next_one, younger)]
    assert [
        (header.producer_id, header.producer_epoch, header.base_sequence) for header in headers
    ] == [(PRODUCER + 1, 0, 0), (PRODUCER + 1, 0, 1)]
    assert not sequencer.may_send(queue)
