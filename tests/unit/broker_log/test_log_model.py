"""A log against a plain list, through appends, truncations, flushes, crashes, power losses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from highwater_broker.log.log import Log
from highwater_broker.log.log_config import LogConfig
from highwater_broker.logic.epoch_cache import EpochCache
from highwater_broker.logic.producer_sequences import (
    Remembered,
    SequencedBatch,
    remember,
    sequence_after,
)
from highwater_core.ids import LeaderEpoch, Offset
from highwater_wire.kafka.record_batch import (
    NO_PRODUCER,
    build_batch,
    parse_header,
    split_batches,
)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("lead"), st.integers(1, 4), st.integers(0, 120), st.integers(0, 1)),
        st.tuples(st.just("follow"), st.integers(1, 4), st.integers(0, 120), st.integers(0, 2)),
        st.tuples(st.just("elect"), st.integers(1, 2), st.just(0), st.just(0)),
        st.tuples(st.just("truncate"), st.integers(0, 12), st.just(0), st.just(0)),
        st.tuples(st.just("restart at"), st.integers(-5, 5), st.just(0), st.just(0)),
        st.tuples(st.just("start"), st.integers(0, 6), st.just(0), st.just(0)),
        st.tuples(st.just("flush"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("crash"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("lose power"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class Model:
    """The list: whole batches as bytes, with their offsets, and the checkpoints of the owner."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.batches: list[tuple[int, int, bytes]] = []
        self.start = 0
        self.end = 0
        self.epochs = EpochCache()
        self.latest = 0
        self.durable: list[tuple[int, int, bytes]] = []
        self.gone: list[tuple[int, int, bytes]] = []
        """Deleted with old segments; producers' state outlives them."""
        self.may_know_more = False
        self.ever: set[tuple[int, int, bytes]] = set()
        self.cut_since_flush = False
        self.recovery_point = 0
        self.log, _ = machine.open()

    def append(self, what: str, count: int, size: int, epoch_step: int) -> None:
        self.latest += epoch_step
        values: list[tuple[bytes | None, bytes | None, int]] = [(None, bytes(size), 1000)]
        producer = self.next_producer(size)
        data = build_batch(values * count, self.end, LeaderEpoch(self.latest), producer)
        if what == "lead":
            sent = build_batch(values * count, producer=producer)
            self.log.append_as_leader(sent, LeaderEpoch(self.latest), 1000)
        else:
            self.log.append_as_follower(data, 1000)
        self.epochs = self.epochs.assign(LeaderEpoch(self.latest), Offset(self.end))
        self.batches.append((self.end, self.end + count, data))
        self.ever.add(self.batches[-1])
        self.end += count

    def next_producer(self, number: int) -> tuple[int, int, int]:
        """Return a producer's id, epoch and next sequence: one of three, or none."""
        if number % 4 == 0:
            return NO_PRODUCER
        self.log.producers.make_current(self.log.segments)
        known = self.log.producers.known(number % 4)
        return number % 4, 0, sequence_after(known[-1].last_sequence, 1) if known else number

    def known(self, producer_id: int) -> Remembered:
        """Return the producer's state in a log that never forgets."""
        known: Remembered = ()
        for _, end, data in [*self.gone, *self.batches]:
            header = parse_header(data)
            if header.producer_id == producer_id:
                first = header.base_sequence
                last = sequence_after(first, header.last_offset_delta)
                known = remember(known, SequencedBatch(0, first, last, end - 1, 1000))
        return known

    def check_producers(self) -> None:
        """Check that the log knows all producers' batches at or above its start.

        It may know others where a power loss has undone a truncation below its start.
        """
        self.log.producers.make_current(self.log.segments)
        for producer_id in (1, 2, 3):
            known, expected = self.log.producers.known(producer_id), self.known(producer_id)
            in_log = [batch for batch in expected if batch.last_offset >= self.start]
            assert list(known[len(known) - len(in_log) :]) == in_log
            if not self.may_know_more:
                assert known == expected[len(expected) - len(known) :]

    def elect(self, epoch_step: int) -> None:
        self.latest += epoch_step
        self.log.assign_epoch(LeaderEpoch(self.latest))
        self.epochs = self.epochs.assign(LeaderEpoch(self.latest), Offset(self.end))

    def truncate(self, back: int) -> None:
        """The batch in which it begins goes as a whole: the log's start too may lie in it."""
        to = max(self.start, self.end - back)
        self.log.truncate_to(Offset(to))
        cut = [b for b in self.batches if b[1] > to]
        self.batches = [b for b in self.batches if b[1] <= to]
        if self.batches:
            self.end = self.batches[-1][1]
        else:
            self.end = min([self.start, *(b[0] for b in cut[:1])])
        self.start = min(self.start, self.end)
        self.epochs = self.epochs.truncate_from_end(Offset(self.end))
        self.checkpoint()
        self.cut_since_flush = True

    def restart_at(self, shift: int) -> None:
        self.start = self.end = max(0, self.end + shift)
        self.log.truncate_fully_and_start_at(Offset(self.start))
        self.batches, self.gone, self.epochs = [], [], EpochCache()
        self.checkpoint()
        self.cut_since_flush = True

    def advance_start(self, forward: int) -> None:
        """Batch boundaries only: a leader's start moves by whole segments."""
        later = [b[0] for b in self.batches if b[0] > self.start][:forward]
        if later:
            self.start = later[-1]
            self.log.advance_log_start(Offset(self.start))
            if forward % 2:
                self.log.remove_retired(Offset(self.start))
            self.gone += [b for b in self.batches if b[0] < self.start]
            self.batches = [b for b in self.batches if b[0] >= self.start]
            self.epochs = self.epochs.truncate_from_start(Offset(self.start))

    def checkpoint(self) -> None:
        self.recovery_point = self.log.recovery_point
        self.durable = [b for b in self.durable if b[1] <= self.recovery_point]

    def flush(self) -> None:
        self.machine.run(self.log.flush())
        self.checkpoint()
        self.durable = list(self.batches)
        self.cut_since_flush = False

    def reopen(self, what: str) -> None:
        if what == "reopen":
            self.flush()
            self.log.close()
        elif what == "crash":
            self.machine.crash()
        else:
            self.machine.lose_power()
        self.log, report = self.machine.open(
            clean=what == "reopen", recovery_point=self.recovery_point, log_start=self.start
        )
        if what == "lose power":
            self.adopt_survivors(self.log)
        elif not self.batches:
            self.epochs = self.log.epoch_cache  # of records below the start, or none
        assert report.log_end_offset == self.end

    def adopt_survivors(self, log: Log) -> None:
        """Check that flushed batches are there; a truncation that was not flushed may be undone."""
        data, offset = b"", log.log_start_offset
        while offset < log.log_end_offset:
            view = log.read(offset, 1 << 20, log.log_end_offset).records
            assert not isinstance(view, bytes)
            data += view.read()
            offset = Offset(split_batches(data)[-1].header.last_offset + 1)
        survivors = [
            (header.base_offset, header.last_offset + 1, bytes(content))
            for header, content in split_batches(data)
        ]
        assert self.ever.issuperset(survivors)
        self.may_know_more |= self.cut_since_flush
        if not self.cut_since_flush:
            assert survivors == self.batches[: len(survivors)]
            assert len(survivors) >= len([b for b in self.durable if b[0] >= self.start])
        self.batches = self.durable = survivors
        self.start, self.end = log.log_start_offset, log.log_end_offset
        self.epochs = log.epoch_cache
        self.recovery_point = log.recovery_point
        self.cut_since_flush = True

    def check(self, tools: Any) -> None:
        log = self.log
        self.check_producers()
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert tools.all_bytes(log) == b"".join(data for _, _, data in self.batches)
        assert log.epoch_cache == self.epochs
        assert log.log_start_offset <= log.recovery_point <= log.log_end_offset
        for base, end, data in self.batches[-3:]:
            view = log.read(Offset(end - 1), 1, Offset(self.end)).records
            assert not isinstance(view, bytes)
            assert split_batches(view.read())[0].header.base_offset == base
            assert view.read() == data
        expected = EpochCache()
        for base, _, data in self.batches:
            expected = expected.assign(
                LeaderEpoch(split_batches(data)[0].header.leader_epoch), Offset(base)
            )
        expected = expected.truncate_from_start(Offset(self.start))
        assert expected.entries == log.epoch_cache.entries[: len(expected.entries)]


@pytest.mark.parametrize("segment_bytes", [700, 3000])
@settings(max_examples=60)
@given(steps=steps)
@example(
    [  # a power loss brings a batch back in whose middle the log was made to begin
        ("lead", 2, 0, 0), ("flush", 0, 0, 0), ("restart at", -1, 0, 0), ("lose power", 0, 0, 0),
        ("truncate", 1, 0, 0),
    ]
)  # fmt: skip
def test_a_log_is_a_list_of_batches(
    new_machine: Any, tools: Any, segment_bytes: int, steps: list[tuple[str, int, int, int]]
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=segment_bytes // 3)
    model = Model(new_machine(config))
    for what, number, size, epoch_step in steps:
        if what in ("lead", "follow"):
            model.append(what, number, size, epoch_step)
        elif what == "elect":
            model.elect(number)
        elif what == "truncate":
            model.truncate(number)
        elif what == "restart at":
            model.restart_at(number)
        elif what == "start":
            model.advance_start(number)
        elif what == "flush":
            model.flush()
        else:
            model.reopen(what)
        model.check(tools)
