"""Fetch: the records of an answer, when a fetch waits, and what ends its wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from highwater_broker.kafka_api.turns import SHARED, Turns
from highwater_broker.log.log import Log
from highwater_broker.log.record_batch import LogRefused
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    Offset,
    TopicId,
    TopicPartition,
)
from highwater_wire.kafka.messages import CONSUMER, FetchPartition, FetchRequest, Records
from tests.support.hosted import size_bytes, values_of

MEBIBYTE = 1024 * 1024
TOPIC_ID = TopicId("ab" * 16)
LINGER_MS = 5
"""A new high watermark waits this long for records to go with."""


def at(
    topic: str,
    partition: int,
    offset: int,
    max_bytes: int = MEBIBYTE,
    epoch: int = -1,
    topic_id: str = "",
) -> FetchPartition:
    return FetchPartition(
        topic,
        partition,
        Offset(offset),
        max_bytes,
        LeaderEpoch(epoch),
        topic_id=TopicId(topic_id),
    )


def consume(*items: FetchPartition, min_bytes: int = 1, max_bytes: int = MEBIBYTE) -> FetchRequest:
    return FetchRequest(CONSUMER, 500, min_bytes, max_bytes, items)


def follow(*items: FetchPartition, replica: int = 1, epoch: int = 101) -> FetchRequest:
    return FetchRequest(NodeId(replica), 500, 1, MEBIBYTE, items, BrokerEpoch(epoch))


def text_of(records: Records) -> bytes:
    """Return the records' values, one after another."""
    return b"".join(values_of(records))


def sent(response: Any) -> list[tuple[str, bytes]]:
    return [(one.error.name, text_of(one.records)) for one in response.partitions]


# ---------------------------------------------------------------- consumers


def test_a_consumer_reads_up_to_the_high_watermark(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a", b"b")
    partition.fill(b"c", committed=False)
    asked = world.start(consume(at("t", 0, 0)))
    (result,) = asked.answer.partitions
    assert (text_of(result.records), result.high_watermark, result.log_start_offset) == (
        b"ab",
        2,
        0,
    )
    assert asked.took_ms == 0


@pytest.mark.parametrize("offset", [2, 3], ids=["at HW", "at LEO"])
def test_a_consumer_between_high_watermark_and_log_end_gets_nothing_after_max_wait(
    world: Any, offset: int
) -> None:
    partition = world.host("t")
    partition.fill(b"a", b"b")
    partition.fill(b"c", committed=False)
    asked = world.start(consume(at("t", 0, offset)))
    world.kernel.run_for(500)
    assert (asked.took_ms, sent(asked.answer)) == (500, [("NONE", b"")])


def test_a_waiting_consumer_wakes_at_the_commit_not_at_the_append(world: Any) -> None:
    partition = world.host("t")
    asked = world.start(consume(at("t", 0, 0)))
    world.kernel.run_for(10)
    partition.fill(b"a", committed=False)
    world.kernel.run_for(10)
    assert not asked.is_done
    partition.commit(1)
    world.kernel.run_for(0)
    assert (asked.took_ms, sent(asked.answer)) == (20, [("NONE", b"a")])


@pytest.mark.parametrize(("count", "steps"), [(4, 0), (5, 2), (100, 22)])
def test_fetches_of_several_partitions_that_one_record_wakes_read_when_it_is_their_turn(
    world: Any, monkeypatch: pytest.MonkeyPatch, count: int, steps: int
) -> None:
    """Found: sixty-four of 100 partitions each read 6,400 times before anybody else ran."""
    taken: list[int] = []
    take = Turns.next

    async def counted(self: Turns, left: int = 1) -> None:
        taken.append(left)
        await take(self, left)

    monkeypatch.setattr(Turns, "next", counted)
    partitions = [world.host("t", number) for number in range(count)]
    wanted = consume(*(at("t", number, 0) for number in range(count)))
    asked = [world.start(wanted) for _ in range(64)]
    partitions[0].fill(b"a")
    world.kernel.run_for(5)
    assert taken == [SHARED] * steps
    assert all(text_of(one.answer.partitions[0].records) == b"a" for one in asked)


def test_min_bytes_are_waited_for(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"aaaa")
    wanted = size_bytes(b"aaaa", b"bbbb", b"cc")
    asked = world.start(consume(at("t", 0, 0), min_bytes=wanted))
    world.kernel.run_for(10)
    partition.fill(b"bbbb")
    world.kernel.run_for(10)
    assert not asked.is_done
    partition.fill(b"cc")
    world.kernel.run_for(0)
    assert (asked.took_ms, sent(asked.answer)) == (20, [("NONE", b"aaaabbbbcc")])


def test_fewer_than_min_bytes_come_after_max_wait(world: Any) -> None:
    world.host("t").fill(b"aaaa")
    asked = world.start(consume(at("t", 0, 0), min_bytes=size_bytes(b"aaaa") + 1))
    world.kernel.run_for(500)
    assert (asked.took_ms, sent(asked.answer)) == (500, [("NONE", b"aaaa")])


def test_min_bytes_count_over_all_partitions(world: Any) -> None:
    world.host("t", 0).fill(b"aaaa")
    world.host("t", 1).fill(b"bbbbbb")
    wanted = size_bytes(b"aaaa", b"bbbbbb")
    asked = world.start(consume(at("t", 0, 0), at("t", 1, 0), min_bytes=wanted))
    assert (asked.took_ms, sent(asked.answer)) == (0, [("NONE", b"aaaa"), ("NONE", b"bbbbbb")])


def test_min_bytes_are_not_waited_for_in_an_older_segment(world: Any) -> None:
    """A read ends with its segment: more records than those never come."""
    partition = world.host("t")
    partition.log.config = replace(partition.log.config, segment_bytes=3 * size_bytes(b"aaaa"))
    partition.fill(*[b"aaaa"] * 7)
    assert [each.next_offset for each in partition.log.segments] == [3, 6, 7]
    wanted = 4 * size_bytes(b"aaaa")
    for offset, readable in ((0, 3), (2, 1), (4, 2)):
        asked = world.start(consume(at("t", 0, offset), min_bytes=wanted))
        assert (asked.took_ms, sent(asked.answer)) == (0, [("NONE", b"aaaa" * readable)])
    newest = world.start(consume(at("t", 0, 6), min_bytes=wanted))
    world.kernel.run_for(500)
    assert (newest.took_ms, sent(newest.answer)) == (500, [("NONE", b"aaaa")])


@pytest.mark.parametrize("committed", [1, 2])
def test_min_bytes_are_waited_for_in_an_older_segment_whose_end_is_not_committed(
    world: Any, committed: int
) -> None:
    partition = world.host("t")
    partition.log.config = replace(partition.log.config, segment_bytes=3 * size_bytes(b"aaaa"))
    partition.fill(*[b"aaaa"] * 4, committed=False)
    partition.commit(committed)
    asked = world.start(consume(at("t", 0, 0), min_bytes=3 * size_bytes(b"aaaa")))
    world.kernel.run_for(10)
    assert not asked.is_done
    partition.commit(3)
    world.kernel.run_for(0)
    assert (asked.took_ms, sent(asked.answer)) == (10, [("NONE", b"aaaa" * 3)])


def test_min_bytes_are_reached_by_what_max_bytes_allows(world: Any) -> None:
    """Whole batches come to less: one that does not fit counts with the part that would."""
    world.host("t").fill(b"aaaa", b"aaaa")
    most = 2 * size_bytes(b"aaaa") - 1
    asked = world.start(consume(at("t", 0, 0, max_bytes=most), min_bytes=most))
    assert (asked.took_ms, sent(asked.answer)) == (0, [("NONE", b"aaaa")])


def test_a_follower_waits_for_min_bytes_up_to_the_logs_end(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"aaaa", committed=False)
    request = replace(follow(at("t", 0, 0)), min_bytes=2 * size_bytes(b"aaaa"))
    world.ask(request, "REPLICATION")  # its answer has the high watermark, so the next one waits
    asked = world.start(request, "REPLICATION")
    world.kernel.run_for(100)
    assert not asked.is_done
    partition.fill(b"aaaa", committed=False)
    world.kernel.run_for(0)
    assert sent(asked.answer) == [("NONE", b"aaaaaaaa")]


@pytest.mark.parametrize("min_bytes", [0, -1])
def test_without_min_bytes_nothing_is_waited_for(world: Any, min_bytes: int) -> None:
    world.host("t")
    asked = world.start(consume(at("t", 0, 0), min_bytes=min_bytes))
    assert (asked.took_ms, sent(asked.answer)) == (0, [("NONE", b"")])


def test_a_fetch_of_nothing_is_answered_at_once(world: Any) -> None:
    assert world.start(consume()).answer.partitions == ()


# ---------------------------------------------------------------- limits


def test_a_first_batch_above_the_limits_is_sent_whole(world: Any) -> None:
    world.host("t").fill(b"x" * 100)
    response = world.ask(consume(at("t", 0, 0, max_bytes=10), max_bytes=20))
    assert sent(response) == [("NONE", b"x" * 100)]


def test_later_partitions_get_only_records_that_fit(world: Any) -> None:
    for number, value in enumerate((b"a" * 60, b"b" * 60, b"c" * 40)):
        world.host("t", number).fill(value)
    fits = size_bytes(b"a" * 60, b"c" * 40)
    response = world.ask(consume(at("t", 0, 0), at("t", 1, 0), at("t", 2, 0), max_bytes=fits))
    assert sent(response) == [("NONE", b"a" * 60), ("NONE", b""), ("NONE", b"c" * 40)]
    assert response.partitions[1].high_watermark == 1


def test_the_first_batch_guarantee_passes_to_the_first_partition_with_records(world: Any) -> None:
    world.host("t", 0)
    world.host("t", 1).fill(b"x" * 100)
    response = world.ask(consume(at("t", 0, 0), at("t", 1, 0, max_bytes=10)))
    assert sent(response) == [("NONE", b""), ("NONE", b"x" * 100)]


def test_a_partitions_own_limit_holds(world: Any) -> None:
    world.host("t").fill(b"aaa", b"bbb", b"ccc")
    most = size_bytes(b"aaa", b"bbb") + 1
    assert sent(world.ask(consume(at("t", 0, 0, max_bytes=most)))) == [("NONE", b"aaabbb")]


@pytest.mark.parametrize(
    "request_value",
    [consume(at("t", 0, 0), max_bytes=-1), consume(at("t", 0, 0, max_bytes=-1))],
    ids=["whole", "partition"],
)
def test_negative_sizes_are_invalid(world: Any, request_value: FetchRequest) -> None:
    world.host("t")
    response = world.ask(request_value)
    assert response.error is ErrorCode.INVALID_FETCH_SIZE
    assert sent(response) == [("INVALID_FETCH_SIZE", b"")]


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (at("t", 0, 3), "OFFSET_OUT_OF_RANGE"),
        (at("t", 0, -1), "OFFSET_OUT_OF_RANGE"),
        (at("t", 0, 0, epoch=2), "FENCED_LEADER_EPOCH"),
        (at("t", 0, 0, epoch=4), "UNKNOWN_LEADER_EPOCH"),
        (at("led-elsewhere", 0, 0), "NOT_LEADER_OR_FOLLOWER"),
        (at("followed-here", 0, 0), "NOT_LEADER_OR_FOLLOWER"),
        (at("unknown", 0, 0), "UNKNOWN_TOPIC_OR_PARTITION"),
        (at("", 0, 0, topic_id="cd" * 16), "UNKNOWN_TOPIC_ID"),
        (at("t", 0, 0, topic_id=TOPIC_ID), "INCONSISTENT_TOPIC_ID"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_is_answered_at_once_beside_the_other_partitions(
    world: Any, make_update: Any, item: FetchPartition, error: str
) -> None:
    world.cluster({"led-elsewhere": [1]})
    known = make_update.partition("t", 0, 0, TOPIC_ID)
    world.metadata.update(make_update.request((known,)))
    world.host("t", topic_id="ef" * 16).fill(b"a", b"b")
    world.host("followed-here").lose_leadership()
    world.host("idle")
    asked = world.start(consume(item, at("idle", 0, 0)))
    assert (asked.took_ms, sent(asked.answer)) == (0, [(error, b""), ("NONE", b"")])


def test_a_read_that_the_disk_refuses_is_that_partitions_error(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.host("t").fill(b"a")

    def refuses(*_: Any) -> None:
        raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, "EIO")

    monkeypatch.setattr(Log, "read", refuses)
    assert sent(world.ask(consume(at("t", 0, 0)))) == [("KAFKA_STORAGE_ERROR", b"")]


@pytest.mark.parametrize(
    ("replica", "listener"),
    [(1, "CLIENT"), (1, "EXTERNAL"), (-1, "REPLICATION"), (-2, "CLIENT"), (-2, "REPLICATION")],
)
def test_followers_and_consumers_keep_to_their_listeners(
    world: Any, replica: int, listener: str
) -> None:
    partition = world.host("t")
    partition.fill(b"a")
    response = world.ask(follow(at("t", 0, 0), replica=replica), listener)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert sent(response) == [("INVALID_REQUEST", b"")]
    assert partition.follower_fetches == []
    assert world.trace.events[-1][0] == "request_refused"


# ---------------------------------------------------------------- ends of a wait


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda partition: partition.lose_leadership(), "NOT_LEADER_OR_FOLLOWER"),
        (lambda partition: partition.truncate(1), "OFFSET_OUT_OF_RANGE"),
    ],
    ids=["lost leadership", "truncated below the fetch"],
)
def test_a_change_under_a_waiting_fetch_ends_it(world: Any, change: Any, error: str) -> None:
    partition = world.host("t")
    partition.fill(b"a", b"b")
    asked = world.start(consume(at("t", 0, 2)))
    world.kernel.run_for(10)
    change(partition)
    world.kernel.run_for(0)
    assert (asked.took_ms, sent(asked.answer)) == (10, [(error, b"")])


def test_a_newer_leader_epoch_fences_a_waiting_fetch(world: Any) -> None:
    partition = world.host("t")
    asked = world.start(consume(at("t", 0, 0, epoch=3)))
    partition.lead_in(4)
    world.kernel.run_for(0)
    assert sent(asked.answer) == [("FENCED_LEADER_EPOCH", b"")]


# ---------------------------------------------------------------- followers


def first_fetch(world: Any, *items: FetchPartition, replica: int = 1) -> None:
    """Let the follower learn the present high watermark."""
    world.ask(follow(*items, replica=replica), "REPLICATION")


def test_a_follower_reads_up_to_the_log_end_and_its_position_counts_first(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a", b"b", committed=False)
    response = world.ask(follow(at("t", 0, 1)), "REPLICATION")
    assert sent(response) == [("NONE", b"b")]
    assert partition.follower_fetches == [(1, 101, 1)]


def test_a_followers_first_fetch_is_answered_soon_with_the_high_watermark(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a")
    asked = world.start(follow(at("t", 0, 1)), "REPLICATION")
    world.kernel.run_for(LINGER_MS)
    assert (asked.took_ms, asked.answer.partitions[0].high_watermark) == (LINGER_MS, 1)


def test_a_follower_with_nothing_new_waits_for_records(world: Any) -> None:
    partition = world.host("t")
    first_fetch(world, at("t", 0, 0))
    asked = world.start(follow(at("t", 0, 0)), "REPLICATION")
    world.kernel.run_for(40)
    assert not asked.is_done
    partition.fill(b"a", committed=False)
    world.kernel.run_for(0)
    assert (asked.took_ms, sent(asked.answer)) == (40, [("NONE", b"a")])


def test_a_newer_high_watermark_reaches_a_waiting_follower_without_new_records(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a", committed=False)
    first_fetch(world, at("t", 0, 1))
    asked = world.start(follow(at("t", 0, 1)), "REPLICATION")
    world.kernel.run_for(10)
    partition.commit(1)
    world.kernel.run_for(LINGER_MS)
    assert (asked.took_ms, asked.answer.partitions[0].high_watermark) == (10 + LINGER_MS, 1)


def test_records_that_come_meanwhile_take_the_high_watermark_with_them(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a", committed=False)
    first_fetch(world, at("t", 0, 1))
    asked = world.start(follow(at("t", 0, 1)), "REPLICATION")
    partition.commit(1)
    world.kernel.run_for(2)
    assert not asked.is_done
    partition.fill(b"b", committed=False)
    world.kernel.run_for(0)
    (result,) = asked.answer.partitions
    assert (asked.took_ms, result.high_watermark, text_of(result.records)) == (2, 1, b"b")


def test_a_high_watermark_never_lingers_past_max_wait(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a", committed=False)
    first_fetch(world, at("t", 0, 1))
    asked = world.start(follow(at("t", 0, 1)), "REPLICATION")
    world.kernel.run_for(498)
    partition.commit(1)
    world.kernel.run_for(2)
    assert asked.took_ms == 500


def test_a_high_watermark_that_rose_between_two_fetches_is_sent_soon(world: Any) -> None:
    partition = world.host("t")
    partition.fill(b"a", committed=False)
    first_fetch(world, at("t", 0, 1))
    partition.commit(1)
    asked = world.start(follow(at("t", 0, 1)), "REPLICATION")
    world.kernel.run_for(LINGER_MS)
    assert asked.took_ms == LINGER_MS
    again = world.start(follow(at("t", 0, 1)), "REPLICATION")
    world.kernel.run_for(500)
    assert again.took_ms == 500


def test_a_high_watermark_sent_to_one_follower_does_not_count_for_another(world: Any) -> None:
    world.host("t")
    first_fetch(world, at("t", 0, 0), replica=1)
    asked = world.start(follow(at("t", 0, 0), replica=2), "REPLICATION")
    world.kernel.run_for(LINGER_MS)
    assert asked.took_ms == LINGER_MS


def test_a_followers_next_incarnation_is_sent_the_high_watermark_again(world: Any) -> None:
    world.host("t")
    first_fetch(world, at("t", 0, 0))
    asked = world.start(follow(at("t", 0, 0), epoch=102), "REPLICATION")
    world.kernel.run_for(LINGER_MS)
    assert asked.took_ms == LINGER_MS


def test_a_new_leader_epoch_starts_afresh(world: Any) -> None:
    partition = world.host("t")
    first_fetch(world, at("t", 0, 0))
    partition.lead_in(4)
    asked = world.start(follow(at("t", 0, 0)), "REPLICATION")
    world.kernel.run_for(LINGER_MS)
    assert asked.took_ms == LINGER_MS


@pytest.mark.parametrize("item", [at("t", 0, 3), at("t", 0, 0, epoch=2), at("t", 0, 0, epoch=4)])
def test_a_follower_out_of_range_or_of_another_epoch_is_not_counted(
    world: Any, item: FetchPartition
) -> None:
    partition = world.host("t")
    partition.fill(b"a", b"b")
    world.ask(follow(item), "REPLICATION")
    assert partition.follower_fetches == []


def test_a_follower_that_the_partition_refuses_gets_its_error(world: Any) -> None:
    world.host("t")
    asked = world.start(follow(at("t", 0, 0), replica=7), "REPLICATION")
    assert (asked.took_ms, sent(asked.answer)) == (0, [("UNKNOWN_TOPIC_OR_PARTITION", b"")])


def test_a_topic_id_finds_the_topic_and_comes_back(world: Any, make_update: Any) -> None:
    world.host("t", topic_id=TOPIC_ID).fill(b"a")
    known = make_update.partition("t", 0, 0, TOPIC_ID)
    world.metadata.update(make_update.request((known,)))
    response = world.ask(follow(at("", 0, 0, topic_id=TOPIC_ID)), "REPLICATION")
    (result,) = response.partitions
    assert (result.topic, result.topic_id, text_of(result.records)) == ("t", TOPIC_ID, b"a")


def test_high_watermarks_sent_to_followers_are_forgotten_with_the_topic(
    world: Any, make_update: Any
) -> None:
    world.cluster({"t": [0]})
    world.host("t")
    first_fetch(world, at("t", 0, 0))
    world.metadata.update(make_update.request((make_update.partition("t", 0, -2),)))
    asked = world.start(follow(at("t", 0, 0)), "REPLICATION")
    world.kernel.run_for(LINGER_MS)
    assert asked.took_ms == LINGER_MS


# ---------------------------------------------------------------- followers that ask again


def two_partitions_in_line(world: Any, replica: int = 1) -> tuple[Any, Any, Any]:
    """Have a follower at the end of two partitions; return them and its unchanged request."""
    quiet, busy = world.host("quiet"), world.host("busy")
    request = follow(at("quiet", 0, 0), at("busy", 0, 0), replica=replica)
    for _ in range(2):
        world.ask(request, "REPLICATION")
    return quiet, busy, request


def test_a_fetch_like_the_last_counts_its_time_and_reads_nothing_again(world: Any) -> None:
    quiet, _, request = two_partitions_in_line(world)
    fetches, reads = len(quiet.follower_fetches), quiet.reads
    repeated = len(quiet.repeated_fetches)
    response = world.ask(request, "REPLICATION")
    assert [one.topic for one in response.partitions] == ["quiet", "busy"]
    assert (len(quiet.follower_fetches), quiet.reads) == (fetches, reads)
    assert len(quiet.repeated_fetches) == repeated + 1


def test_news_of_one_partition_come_beside_the_others_answers(world: Any) -> None:
    quiet, busy, request = two_partitions_in_line(world)
    reads = quiet.reads
    asked = world.start(request, "REPLICATION")
    world.kernel.run_for(7)
    busy.fill(b"a", committed=False)
    world.kernel.run_for(0)
    assert (asked.took_ms, sent(asked.answer)) == (7, [("NONE", b""), ("NONE", b"a")])
    assert quiet.reads == reads


def test_a_change_between_two_fetches_is_seen_by_the_second(world: Any) -> None:
    quiet, _, request = two_partitions_in_line(world)
    quiet.lose_leadership()
    asked = world.start(request, "REPLICATION")
    assert asked.took_ms == 0
    assert sent(asked.answer) == [("NOT_LEADER_OR_FOLLOWER", b""), ("NONE", b"")]


def test_each_fetch_of_a_follower_outside_the_isr_counts(world: Any) -> None:
    quiet, busy, request = two_partitions_in_line(world, replica=2)
    world.ask(request, "REPLICATION")
    assert len(quiet.follower_fetches) == len(busy.follower_fetches) == 3


def test_a_second_fetch_of_a_follower_whose_first_still_waits_begins_afresh(world: Any) -> None:
    quiet, _, request = two_partitions_in_line(world)
    reads = quiet.reads
    first = world.start(request, "REPLICATION")
    second = world.start(request, "REPLICATION")
    world.kernel.run_for(500)
    assert (first.took_ms, second.took_ms) == (500, 500)
    assert quiet.reads == reads + 1


def test_each_of_a_followers_fetchers_goes_on_where_it_was(world: Any) -> None:
    """They take turns, and share no partition."""
    apart = [world.host("apart", number) for number in range(3)]
    requests = [follow(at("apart", number, 0)) for number in range(3)]
    for request in requests * 2:
        world.ask(request, "REPLICATION")
    reads = [one.reads for one in apart]
    waiting = [world.start(request, "REPLICATION") for request in requests]
    world.kernel.run_for(500)
    assert [asked.took_ms for asked in waiting] == [500] * 3
    assert [one.reads for one in apart] == reads


def test_fetchers_that_share_their_partitions_anew_leave_nothing_behind(world: Any) -> None:
    for number in range(4):
        world.host("t", number)
    for numbers in ((0, 1, 2, 3), (0, 2), (1, 3), (3, 2, 1, 0), (2, 3), (0, 1), (1, 2, 3, 0)):
        for _ in range(2):
            world.ask(follow(*(at("t", number, 0) for number in numbers)), "REPLICATION")
    assert [watches(world, "t", number) for number in range(4)] == [1, 1, 1, 1]


def test_a_partition_that_a_follower_leaves_out_is_forgotten(world: Any) -> None:
    quiet, busy, request = two_partitions_in_line(world)
    world.ask(follow(at("busy", 0, 0)), "REPLICATION")
    assert len(busy.follower_fetches) == 1
    counted = len(quiet.follower_fetches)
    world.ask(request, "REPLICATION")
    assert len(quiet.follower_fetches) == counted + 1


def watches(world: Any, topic: str, number: int = 0) -> int:
    return len(world.purgatory._watches.get(TopicPartition(topic, number), ()))


def test_a_followers_earlier_registrations_watch_nothing_any_more(world: Any) -> None:
    world.host("t")
    for epoch in range(101, 111):
        for _ in range(2):
            world.ask(follow(at("t", 0, 0), epoch=epoch), "REPLICATION")
    assert watches(world, "t") == 1


def test_a_followers_fetches_by_name_are_remembered_beside_those_by_id(
    world: Any, make_update: Any
) -> None:
    by_id, by_name = world.host("id", topic_id=TOPIC_ID), world.host("name")
    world.metadata.update(make_update.request((make_update.partition("id", 0, 0, TOPIC_ID),)))
    requests = follow(at("", 0, 0, topic_id=TOPIC_ID)), follow(at("name", 0, 0))
    for _ in range(3):
        for request in requests:
            world.ask(request, "REPLICATION")
    assert (len(by_id.follower_fetches), len(by_name.follower_fetches)) == (1, 1)
    assert (watches(world, "id"), watches(world, "name")) == (1, 1)


def test_of_a_peer_that_may_fetch_nothing_nothing_is_remembered(world: Any) -> None:
    world.host("t")
    for replica in range(10, 20):
        world.ask(follow(at("t", 0, 0), replica=replica), "REPLICATION")
    assert watches(world, "t") == 0
