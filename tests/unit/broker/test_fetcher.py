"""A follower takes its leader's answers: truncation, appends, offsets out of range."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from highwater_broker.become_follower import become_follower
from highwater_broker.become_leader import become_leader
from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.log.record_batch import LogRefused, stamp
from highwater_broker.partition import Partition
from highwater_broker.replication_quotas import Throttling
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_TOPIC_ID,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicId,
    TopicPartition,
)
from highwater_core.ports import CallFailed
from highwater_wire.kafka.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EpochEndOffset,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from highwater_wire.kafka.record_batch import split_batches

from .conftest import CONTROLLER, ME, THREE, TWO, Bench, batch, command

E = ErrorCode
MakeBench = Callable[..., Bench]


def stamped(offset: int, epoch: int, *values: str) -> bytes:
    """Return a batch as a leader of that epoch stores it."""
    (one,) = split_batches(batch(*values))
    return b"".join(bytes(part) for part in stamp(one, offset, epoch))


class Leader:
    """A leader's log as (epoch, value) pairs; answers followers' requests."""

    def __init__(self, records: list[tuple[int, str]], high_watermark: int, start: int = 0) -> None:
        self.records = records
        self.high_watermark = high_watermark
        self.start = start
        self.fetch_error = E.NONE

    def __call__(self, request: object) -> object:
        match request:
            case FetchRequest():
                return self._fetch(request)
            case OffsetForLeaderEpochRequest():
                return self._epoch_end(request)
            case ListOffsetsRequest():
                (item,) = request.partitions
                is_start = item.timestamp == EARLIEST_TIMESTAMP
                offset = self.start if is_start else len(self.records)
                return ListOffsetsResponse(
                    (ListOffsetsResult("t", 0, E.NONE, offset=Offset(offset)),)
                )
        raise AssertionError(request)

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        (item,) = request.partitions
        error, records = self.fetch_error, b""
        if error is E.NONE and not self.start <= item.fetch_offset <= len(self.records):
            error = E.OFFSET_OUT_OF_RANGE
        if error is E.NONE:
            for offset in range(item.fetch_offset, len(self.records)):
                epoch, value = self.records[offset]
                records += stamped(offset, epoch, value)
        return FetchResponse(
            (
                FetchPartitionResult(
                    "t", 0, error, Offset(self.high_watermark), Offset(self.start), records
                ),
            )
        )

    def _epoch_end(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        (item,) = request.partitions
        known = [epoch for epoch, _ in self.records if epoch <= item.leader_epoch]
        epoch, end = (max(known), len(known)) if known else (-1, -1)
        return OffsetForLeaderEpochResponse(
            (EpochEndOffset("t", 0, E.NONE, LeaderEpoch(epoch), Offset(end)),)
        )


def follower_with(bench: Bench, records: list[tuple[int, str]], high_watermark: int) -> Partition:
    """Return a partition whose log holds the records and whose high watermark is that."""
    partition = bench.partition()
    for offset, (epoch, value) in enumerate(records):
        partition.log.append_as_follower(stamped(offset, epoch, value), 0)
    return bench.partition(high_watermark=high_watermark)


def values(partition: Partition) -> list[bytes]:
    records = partition.log.read(partition.log_start_offset, 1 << 20, partition.log_end_offset)
    data = records.records if isinstance(records.records, bytes) else records.records.read()
    return [bytes(each.data)[-2:-1] for each in split_batches(data)]


def follow(
    bench: Bench, partition: Partition, leader: Leader, epoch: int, broker: NodeId = TWO
) -> FetcherRegistry:
    bench.transport.leader = leader
    fetchers = bench.fetchers()
    become_follower(
        partition, command(broker, epoch), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    bench.kernel.run_for(20)
    return fetchers


MINE = [(0, "a"), (0, "b"), (1, "x"), (1, "y")]
LEADERS = [(0, "a"), (0, "b"), (2, "c")]


def test_a_follower_truncates_to_where_its_last_epoch_ends_at_the_leader(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition = follower_with(bench, MINE, high_watermark=1)
    follow(bench, partition, Leader(LEADERS, high_watermark=2), epoch=2)
    assert values(partition) == [b"a", b"b", b"c"]
    assert partition.high_watermark == 2
    (cut,) = bench.traced(EventKind.LOG_TRUNCATED)
    assert (cut.offset, cut.detail["from_offset"], cut.detail["high_watermark"]) == (2, 4, 1)
    asked = [type(request).__name__ for request in bench.transport.asked[:2]]
    assert asked == ["OffsetForLeaderEpochRequest", "FetchRequest"]


def test_a_follower_whose_leader_knows_no_such_epoch_truncates_to_its_high_watermark(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(Preset.KIP101)
    partition = follower_with(bench, [(0, "a"), (0, "b"), (1, "x")], high_watermark=1)
    follow(bench, partition, Leader([(3, "a"), (3, "p")], high_watermark=2), epoch=3)
    (cut,) = bench.traced(EventKind.LOG_TRUNCATED)
    reason = "to the high watermark: its leader knows no epoch 1"
    assert (cut.offset, cut.detail["reason"]) == (1, reason)
    assert values(partition) == [b"a", b"p"]


def test_a_follower_truncates_to_its_high_watermark_without_asking_under_v3(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(Preset.V3)
    partition = follower_with(bench, MINE, high_watermark=1)
    follow(bench, partition, Leader(LEADERS, high_watermark=2), epoch=2)
    assert values(partition) == [b"a", b"b", b"c"]
    (cut,) = bench.traced(EventKind.LOG_TRUNCATED)
    assert (cut.offset, cut.detail["reason"]) == (1, "to the high watermark")
    assert not any(isinstance(r, OffsetForLeaderEpochRequest) for r in bench.transport.asked)


@pytest.mark.parametrize(("preset", "is_cut"), [(Preset.V3, False), (Preset.FENCED, True)])
def test_a_new_epoch_of_the_same_leader_truncates_only_with_the_fix(
    make_bench: MakeBench, preset: Preset, is_cut: bool
) -> None:
    bench = make_bench(preset)
    partition = follower_with(bench, [(0, "a"), (0, "b")], high_watermark=2)
    fetchers = follow(bench, partition, Leader([(0, "a"), (0, "b")], 2), epoch=1)
    bench.transport.leader = Leader([(0, "a"), (2, "c")], 2)
    become_follower(
        partition, command(TWO, 3), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    bench.kernel.run_for(20)
    assert values(partition) == [b"a", b"c" if is_cut else b"b"], "KAFKA-7164"


def test_a_truncation_that_is_still_due_is_not_forgotten_when_its_leader_is_named_again(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(toggles={"truncate_on": "leader_change"})
    partition = follower_with(bench, MINE, high_watermark=1)
    leader = Leader(LEADERS, high_watermark=2)

    def deaf(request: object) -> object:
        raise CallFailed("no answer")

    bench.transport.leader = deaf
    fetchers = bench.fetchers()
    for epoch in (2, 3):
        become_follower(
            partition, command(TWO, epoch), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
        )
        bench.kernel.run_for(20)
        bench.transport.leader = leader
    bench.kernel.run_for(2_000)
    assert values(partition) == [b"a", b"b", b"c"]


def test_a_cut_that_the_disk_refused_is_not_forgotten_when_its_leader_is_named_again(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(Preset.V3)
    partition = follower_with(bench, MINE, high_watermark=1)
    fetchers = bench.fetchers()
    bench.transport.leader = Leader(LEADERS, high_watermark=2)

    def refuse(offset: Offset, reason: str) -> None:
        raise LogRefused(E.KAFKA_STORAGE_ERROR, "no")

    with monkeypatch.context() as disk:
        disk.setattr(partition, "truncate_to", refuse)
        become_follower(
            partition, command(TWO, 2), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
        )
        bench.kernel.run_for(20)
    become_follower(
        partition, command(TWO, 3), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    bench.kernel.run_for(2_000)
    assert values(partition) == [b"a", b"b", b"c"]


def test_a_log_that_ends_at_its_leaders_start_starts_over_there_once_that_is_on_disk(
    make_bench: MakeBench,
) -> None:
    """Retention removed the start of epoch 2: the leader answers its log start as end of epoch 1.

    Records between the point where the two logs parted and there are not the leader's.
    """
    bench = make_bench()
    partition = follower_with(bench, [(0, "a"), (1, "p"), (1, "q"), (1, "r")], high_watermark=1)
    leader = Leader([(0, "a"), (2, "b"), (2, "c"), (2, "d"), (2, "e")], high_watermark=5, start=3)

    def answer(request: object) -> object:
        if isinstance(request, OffsetForLeaderEpochRequest):
            end = EpochEndOffset("t", 0, E.NONE, LeaderEpoch(1), Offset(3))
            return OffsetForLeaderEpochResponse((end,))
        return leader(request)

    bench.transport.leader = answer
    become_follower(
        partition, command(TWO, 2), CONTROLLER, fetchers=bench.fetchers(), toggles=bench.toggles
    )
    bench.kernel.run_for(20)
    assert bench.saved == [(3, 3)]
    assert values(partition) == [b"d", b"e"]
    assert (partition.log_start_offset, partition.high_watermark) == (3, 5)
    (moved,) = bench.traced(EventKind.LOG_START_MOVED)
    assert moved.offset == 3


def test_a_log_that_agrees_with_its_leaders_is_emptied_by_the_leaders_start_and_not_begun_anew(
    make_bench: MakeBench,
) -> None:
    """Retention removes all that the leader has: epochs and producers stay known, as in Kafka."""
    bench = make_bench()
    partition = follower_with(bench, [(0, "a"), (0, "b")], high_watermark=2)
    leader = Leader([(0, "a"), (0, "b")], high_watermark=2)
    follow(bench, partition, leader, epoch=1)
    assert partition.log_start_offset == 0
    leader.start = 2
    bench.kernel.run_for(1_000)
    (moved,) = bench.traced(EventKind.LOG_START_MOVED)
    assert (moved.offset, moved.detail) == (2, {"reason": "as the leader's"})
    assert (partition.log_start_offset, partition.log_end_offset) == (2, 2)
    assert partition.log.epoch_cache.entries == ((0, 2),)
    assert partition.log.size_bytes == 0
    assert bench.saved == []


def test_a_leader_without_the_followers_epoch_is_asked_again_for_an_older_one(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    mine = [(0, "a"), (1, "p"), (3, "q")]
    leaders = [(0, "a"), (2, "r"), (4, "s"), (4, "t")]
    partition = follower_with(bench, mine, high_watermark=1)
    follow(bench, partition, Leader(leaders, high_watermark=4), epoch=4)
    asked = [
        request.partitions[0].leader_epoch
        for request in bench.transport.asked
        if isinstance(request, OffsetForLeaderEpochRequest)
    ]
    assert asked == [3, 1]
    assert values(partition) == [b"a", b"r", b"s", b"t"], "KIP-279"


def test_fetches_carry_leader_epoch_and_broker_epoch_only_where_fenced(
    make_bench: MakeBench,
) -> None:
    for preset, expected in ((Preset.FENCED, (2, 7)), (Preset.V3, (-1, -1))):
        bench = make_bench(preset)
        follow(bench, bench.partition(), Leader([], 0), epoch=2)
        request = bench.transport.asked[-1]
        assert isinstance(request, FetchRequest)
        sent = request.partitions[0].current_leader_epoch, request.replica_epoch
        assert sent == expected


def test_the_recovery_point_is_checkpointed_between_truncation_and_the_next_append(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    bench.disk_refuses_checkpoints = True
    partition = follower_with(bench, MINE, high_watermark=1)
    partition.log.recovery_point = Offset(4)

    def leader(request: object) -> object:
        if isinstance(request, FetchRequest):
            assert bench.written_recovery_points > 0
            partition.checkpointed(partition.checkpoints_due)
        return Leader(LEADERS, 2)(request)

    bench.transport.leader = leader
    become_follower(
        partition, command(TWO, 2), CONTROLLER, fetchers=bench.fetchers(), toggles=bench.toggles
    )
    bench.kernel.run_for(5)
    assert partition.must_checkpoint
    assert bench.written_recovery_points == 1


@pytest.mark.parametrize(
    ("leader", "expected", "saved"),
    [
        pytest.param(Leader([(0, "a")], 1), [b"a"], [], id="leader ends below: cut (10b)"),
        pytest.param(
            Leader([(0, value) for value in "abcdefg"], 7, start=5),
            [b"f", b"g"],
            [(5, 5)],
            id="leader starts above: start over",
        ),
    ],
)
def test_a_follower_out_of_range_comes_back_into_the_leaders_range(
    make_bench: MakeBench, leader: Leader, expected: list[bytes], saved: list[tuple[int, int]]
) -> None:
    bench = make_bench(Preset.V3)
    partition = follower_with(bench, [(0, "a"), (0, "b")], high_watermark=2)
    follow(bench, partition, leader, epoch=0)
    assert values(partition) == expected
    assert bench.saved == saved, "where a log starts over is on the disk before it goes on"
    (cut,) = bench.traced(EventKind.LOG_TRUNCATED)
    assert cut.detail["reason"].startswith("warning")


@pytest.mark.parametrize("wrong", [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP])
def test_an_offset_that_no_log_has_moves_nothing(make_bench: MakeBench, wrong: int) -> None:
    bench = make_bench(Preset.V3)
    partition = follower_with(bench, [(0, "a"), (0, "b")], high_watermark=2)
    leader = Leader([(0, value) for value in "abcdefg"], 7, start=5)

    def confused(request: object) -> object:
        if isinstance(request, ListOffsetsRequest) and request.partitions[0].timestamp == wrong:
            return ListOffsetsResponse((ListOffsetsResult("t", 0, E.NONE, offset=Offset(-9)),))
        return leader(request)

    bench.transport.leader = confused
    become_follower(
        partition, command(TWO, 0), CONTROLLER, fetchers=bench.fetchers(), toggles=bench.toggles
    )
    bench.kernel.run_for(1_000)
    assert values(partition) == [b"a", b"b"]
    bench.transport.leader = leader
    bench.kernel.run_for(2_000)
    assert values(partition) == [b"f", b"g"], "asked again"


def test_a_log_is_not_wiped_when_the_leader_has_caught_up_meanwhile(make_bench: MakeBench) -> None:
    bench = make_bench(Preset.V3)
    partition = follower_with(bench, [(0, "a"), (0, "b")], high_watermark=2)
    leader = Leader([(0, "a")], 1)

    def growing(request: object) -> object:
        if isinstance(request, ListOffsetsRequest):
            leader.records = [(0, "a"), (0, "b"), (1, "c")]
        return leader(request)

    bench.transport.leader = growing
    become_follower(
        partition, command(TWO, 1), CONTROLLER, fetchers=bench.fetchers(), toggles=bench.toggles
    )
    bench.kernel.run_for(20)
    assert values(partition) == [b"a", b"b", b"c"], "KAFKA-2143"
    assert not bench.traced(EventKind.LOG_TRUNCATED)


def test_a_reply_that_comes_after_a_newer_command_is_dropped(make_bench: MakeBench) -> None:
    bench = make_bench()
    partition = bench.partition()
    fetchers = bench.fetchers()
    bench.transport.leader = Leader([(0, "a")], 1)
    become_follower(
        partition, command(TWO, 0), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    bench.kernel.run_for(0)
    assert len(bench.transport.asked) == 1
    asked, late, empty = bench.transport.asked, bench.transport.leader, Leader([], 0)
    bench.transport.leader = lambda request: (late if request is asked[0] else empty)(request)
    become_follower(
        partition, command(THREE, 1), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    # Not drop_idle(): a fetcher that copies other partitions lives on, and hears the answer.
    bench.kernel.run_for(20)
    assert len(asked) > 1
    assert partition.log_end_offset == 0


def test_a_reply_that_comes_once_this_broker_leads_cuts_nothing(make_bench: MakeBench) -> None:
    bench = make_bench()
    mine = [(0, "a"), (1, "b"), (1, "c")]
    partition = follower_with(bench, mine, high_watermark=3)
    fetchers = bench.fetchers()
    bench.transport.leader = Leader([(0, "a")], 1)
    become_follower(
        partition, command(TWO, 2), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    bench.kernel.run_for(0)
    (asked,) = bench.transport.asked
    assert isinstance(asked, OffsetForLeaderEpochRequest)
    become_leader(
        partition,
        command(ME, 3),
        CONTROLLER,
        fetchers=fetchers,
        toggles=bench.toggles,
        now_ms=bench.runtime.now_ms(),
    )
    bench.kernel.run_for(20)
    assert values(partition) == [b"a", b"b", b"c"]


DEPOSED = [(0, "a"), (0, "x"), (0, "y")]
ELECTED = [(0, "a"), (1, "p"), (1, "q"), (1, "r")]


def test_a_batch_above_the_followed_epoch_is_not_appended_nor_batches_after_it(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition = follower_with(bench, DEPOSED[:2], high_watermark=1)
    leader = Leader(DEPOSED, high_watermark=1)
    follow(bench, partition, leader, epoch=0)
    leader.records = [*DEPOSED, (0, "z"), (1, "q"), (0, "s")]  # as the file is by then
    bench.kernel.run_for(2_000)
    assert values(partition) == [b"a", b"x", b"y", b"z"], "KAFKA-18723"
    assert partition.log.epoch_cache.latest_epoch == 0
    refused = bench.traced(EventKind.REQUEST_REFUSED)
    assert refused[0].detail["error"] == E.FENCED_LEADER_EPOCH.name


def test_a_follower_that_was_answered_by_a_deposed_leader_ends_with_the_new_ones_log(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition = follower_with(bench, DEPOSED, high_watermark=1)
    leader = Leader(DEPOSED, high_watermark=1)
    fetchers = follow(bench, partition, leader, epoch=0)
    leader.records = ELECTED
    bench.kernel.run_for(2_000)
    fetchers.remove(partition.topic_partition)
    follow(bench, partition, Leader(ELECTED, high_watermark=1), epoch=1, broker=THREE)
    assert values(partition) == [b"a", b"p", b"q", b"r"]


def test_without_fencing_a_follower_takes_records_of_a_later_epochs_leader(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(Preset.V3)
    partition = follower_with(bench, [(0, "a")], high_watermark=1)
    follow(bench, partition, Leader([(0, "a"), (1, "b")], high_watermark=2), epoch=0)
    assert values(partition) == [b"a", b"b"]


def test_a_refused_fetch_is_retried_with_growing_pauses(make_bench: MakeBench) -> None:
    bench = make_bench()
    leader = Leader([(0, "a")], 1)
    leader.fetch_error = E.UNKNOWN_LEADER_EPOCH
    partition = bench.partition()
    follow(bench, partition, leader, epoch=0)
    bench.kernel.run_for(1_000)
    assert 3 <= len(bench.transport.asked) <= 6
    assert len(bench.traced(EventKind.REQUEST_REFUSED)) == 1
    leader.fetch_error = E.NONE
    bench.kernel.run_for(1_100)
    assert partition.log_end_offset == 1


def test_a_partition_that_the_answer_leaves_out_is_asked_for_again_with_pauses(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    fetchers = bench.fetchers()
    bench.transport.leader = lambda request: (
        FetchResponse(()) if isinstance(request, FetchRequest) else OffsetForLeaderEpochResponse(())
    )
    become_follower(
        bench.partition(), command(TWO, 0), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    bench.kernel.run_for(10_000)
    assert 10 <= len(bench.transport.asked) <= 16


def test_a_dead_leader_is_tried_with_growing_pauses(make_bench: MakeBench) -> None:
    bench = make_bench()

    def dead(request: object) -> object:
        raise CallFailed("reset")

    bench.transport.leader = dead
    fetchers = bench.fetchers()
    become_follower(
        bench.partition(), command(TWO, 0), CONTROLLER, fetchers=fetchers, toggles=bench.toggles
    )
    bench.kernel.run_for(10_000)
    assert 10 <= len(bench.transport.asked) <= 16


def test_corrupt_batches_of_a_leader_are_refused_and_asked_for_again(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    partition = bench.partition()

    def corrupt(request: object) -> object:
        torn = bytearray(stamped(0, 0, "a"))
        torn[-1] ^= 1
        result = FetchPartitionResult("t", 0, E.NONE, Offset(1), Offset(0), bytes(torn))
        return FetchResponse((result,))

    bench.transport.leader = corrupt
    become_follower(
        partition, command(TWO, 0), CONTROLLER, fetchers=bench.fetchers(), toggles=bench.toggles
    )
    bench.kernel.run_for(10)
    assert partition.log_end_offset == 0
    bench.transport.leader = Leader([(0, "a")], 1)
    bench.kernel.run_for(200)
    assert partition.log_end_offset == 1


class NamedPartition:
    """A partition with only the attributes that the registry uses."""

    def __init__(self, topic: str, topic_id: TopicId) -> None:
        self.topic_partition = TopicPartition(topic, 0)
        self.topic_id = topic_id
        self.leader_epoch = LeaderEpoch(1)
        self.log_end_offset = Offset(0)

    def trace(self, kind: EventKind, **detail: object) -> None:
        pass


@pytest.mark.parametrize(
    ("preset", "by_name"), [(Preset.FENCED, [False, True]), (Preset.V3, [False])]
)
def test_a_topic_without_an_id_is_fetched_apart_from_those_that_have_one(
    make_bench: MakeBench, preset: Preset, by_name: list[bool]
) -> None:
    """A Fetch names all its topics by id or none: one without would take the ids from the rest."""
    registry = make_bench(preset).fetchers()
    for topic, topic_id in (("a", TopicId("f" * 32)), ("b", NO_TOPIC_ID), ("c", TopicId("e" * 32))):
        registry.add(NamedPartition(topic, topic_id), TWO, truncates=False, is_in_sync=True)  # type: ignore[arg-type]
    assert sorted(key.is_by_name for key in registry._fetchers) == by_name
    together = registry._fetcher_of
    assert together[TopicPartition("a", 0)] == together[TopicPartition("c", 0)]


def fetched(bench: Bench) -> int:
    return sum(isinstance(request, FetchRequest) for request in bench.transport.asked)


def follow_throttled(bench: Bench, isr: tuple[NodeId, ...]) -> Leader:
    """Follow a leader with more than the quota allows: the log ends below its high watermark."""
    partition = follower_with(bench, [], high_watermark=0)
    partition.throttling = Throttling(as_follower=True)
    bench.quotas.follower.limit_bytes_per_s = 1_000
    bench.quotas.follower.record(5_000)
    bench.transport.leader = leader = Leader([(0, "a"), (0, "b")], high_watermark=2)
    become_follower(
        partition,
        command(TWO, 0, isr=isr),
        CONTROLLER,
        fetchers=bench.fetchers(),
        toggles=bench.toggles,
    )
    return leader


def test_a_throttled_replica_that_is_not_in_sync_is_left_out_until_the_rate_allows_it(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    follow_throttled(bench, isr=(TWO, THREE))
    bench.kernel.run_for(4_500)
    assert (fetched(bench), values(bench.hosted[-1])) == (0, [])
    bench.kernel.run_for(2_000)
    assert values(bench.hosted[-1]) == [b"a", b"b"]


def test_a_throttled_member_of_the_isr_is_fetched_at_once_and_counts(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    follow_throttled(bench, isr=(ME, TWO))
    bench.kernel.run_for(100)
    assert values(bench.hosted[-1]) == [b"a", b"b"]
    (window,) = bench.quotas.follower._windows
    assert window.size_bytes == 5_000 + len(stamped(0, 0, "a")) + len(stamped(1, 0, "b"))


def test_a_replica_that_has_reached_the_high_watermark_is_held_back_no_more(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    leader = follow_throttled(bench, isr=(TWO, THREE))
    bench.kernel.run_for(6_500)
    bench.quotas.follower.record(100_000)
    leader.records.append((0, "c"))
    bench.kernel.run_for(100)
    assert values(bench.hosted[-1]) == [b"a", b"b", b"c"]
