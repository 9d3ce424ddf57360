"""A follower of more partitions of one leader than one request may name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from highwater_broker import fetcher, fetcher_registry
from highwater_broker.fetcher_registry import FetcherRegistry
from highwater_broker.logic.epoch_cache import EpochCache, EpochStart
from highwater_broker.logic.fetcher_spread import MAX_ASKED, MAX_FOLLOWED
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_TOPIC_ID, LeaderEpoch, NodeId, Offset, TopicId, TopicPartition
from highwater_core.ports import CallFailed
from highwater_wire.kafka import codec
from highwater_wire.kafka.bounds import MalformedRequest
from highwater_wire.kafka.codec import REPLICATION_PROFILE, replication_version
from highwater_wire.kafka.messages import (
    EpochEndOffset,
    EpochPartition,
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

from .conftest import TWO, Bench

MakeBench = Callable[..., Bench]
LOG = SimpleNamespace(
    epoch_cache=EpochCache((EpochStart(LeaderEpoch(1), Offset(0)),)),
    log_start_offset=Offset(0),
    log_end_offset=Offset(3),
)
A_TOPIC_ID = TopicId("f" * 32)


def longest(number: int) -> str:
    """Return a topic's name of as many characters as there may be."""
    return f"{number:06}".ljust(249, "x")


class Replica:
    """A replica of three records, without files: what a fetcher reads and does."""

    leader_epoch = LeaderEpoch(2)
    must_checkpoint = is_held_back = False
    log, log_start_offset, log_end_offset = LOG, LOG.log_start_offset, LOG.log_end_offset
    high_watermark = Offset(3)

    def __init__(self, topic: str, partition: int, topic_id: TopicId = A_TOPIC_ID) -> None:
        self.topic_partition = TopicPartition(topic, partition)
        self.topic_id = topic_id
        self.truncated = 0
        self.fetched = 0

    def trace(self, kind: EventKind, **detail: object) -> None:
        pass

    def truncate_to(self, offset: Offset, reason: str) -> None:
        self.truncated += 1

    def append_as_follower(self, *answered: object) -> ErrorCode:
        self.fetched += 1
        return ErrorCode.NONE


def answer(request: object) -> object:
    """Answer as a leader with the same logs."""
    if isinstance(request, OffsetForLeaderEpochRequest):
        return OffsetForLeaderEpochResponse(
            tuple(
                EpochEndOffset(
                    each.topic, each.partition, ErrorCode.NONE, LeaderEpoch(1), Offset(3)
                )
                for each in request.partitions
            )
        )
    assert isinstance(request, FetchRequest)
    return FetchResponse(
        tuple(
            FetchPartitionResult(
                each.topic, each.partition, ErrorCode.NONE, Offset(3), topic_id=each.topic_id
            )
            for each in request.partitions
        )
    )


def frame(request: FetchRequest | OffsetForLeaderEpochRequest) -> bytes:
    pieces = codec.encode_request(request, replication_version(request), 1, "node-1")
    return b"".join(bytes(piece) for piece in pieces)[4:]  # type: ignore[arg-type]


def heard(request: object) -> object:
    """Answer what a listener hands on; what it does not read ends the connection."""
    assert isinstance(request, FetchRequest | OffsetForLeaderEpochRequest)
    try:
        codec.decode_request(frame(request), profile=REPLICATION_PROFILE)
    except MalformedRequest as refused:
        raise CallFailed("closed by the peer") from refused
    return answer(request)


def followed(registry: FetcherRegistry, replicas: list[Replica], leader: NodeId = TWO) -> None:
    for each in replicas:
        registry.add(each, leader, truncates=True, is_in_sync=True)  # type: ignore[arg-type]


def small(monkeypatch: pytest.MonkeyPatch, *, most_asked: int, most_followed: int) -> None:
    monkeypatch.setattr(fetcher, "MAX_ASKED", most_asked)
    monkeypatch.setattr(fetcher_registry, "MAX_FOLLOWED", most_followed)


# ---------------------------------------------------------------- what requests may name


def test_the_most_partitions_that_are_asked_about_at_once_are_read_by_the_leader() -> None:
    asked = tuple(
        EpochPartition(longest(n), 2**31 - 1, LeaderEpoch(2**31 - 1), LeaderEpoch(2**31 - 1))
        for n in range(MAX_ASKED)
    )
    request = OffsetForLeaderEpochRequest(NodeId(1), asked)
    read = codec.decode_request(frame(request), profile=REPLICATION_PROFILE).request
    assert read == request


@pytest.mark.parametrize("has_ids", [False, True])
def test_the_most_partitions_of_a_fetcher_are_read_by_the_leader(has_ids: bool) -> None:
    named = tuple(
        FetchPartition(
            longest(n),
            2**31 - 1,
            Offset(2**62),
            2**31 - 1,
            LeaderEpoch(2**31 - 1),
            Offset(2**62),
            TopicId(f"{n + 1:032x}") if has_ids else NO_TOPIC_ID,
        )
        for n in range(MAX_FOLLOWED)
    )
    request = FetchRequest(NodeId(1), 500, 1, 2**31 - 1, named)
    read = codec.decode_request(frame(request), profile=REPLICATION_PROFILE).request
    assert isinstance(read, FetchRequest)
    assert len(read.partitions) == MAX_FOLLOWED


# ---------------------------------------------------------------- what fetchers ask


def test_a_follower_of_thousands_of_topics_of_one_leader_comes_to_fetch_them(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    bench.transport.leader = heard
    replicas = [Replica(f"t{number}", 0, TopicId(f"{number + 1:032x}")) for number in range(6_001)]
    followed(bench.fetchers(), replicas)
    bench.kernel.run_for(8)
    assert sum(each.truncated == 1 and each.fetched > 0 for each in replicas) == 6_001


@pytest.mark.parametrize("failing", [(), (2, 3)])
def test_partitions_are_asked_about_in_chunks_until_all_are_in_line(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch, failing: tuple[int, ...]
) -> None:
    small(monkeypatch, most_asked=10, most_followed=100)
    bench = make_bench()

    def leader(request: object) -> object:
        if len(bench.transport.asked) in failing:
            raise CallFailed("reset")
        return answer(request)

    bench.transport.leader = leader
    replicas = [Replica("t", number) for number in range(25)]
    followed(bench.fetchers(), replicas)
    bench.kernel.run_for(1_000)
    asked = [each for each in bench.transport.asked if not isinstance(each, FetchRequest)]
    assert [len(each.partitions) for each in asked] == [10, *[10] * len(failing), 10, 5]  # type: ignore[attr-defined]
    assert [each.truncated for each in replicas] == [1] * 25


def test_a_chunk_that_the_leader_refuses_does_not_keep_the_next_from_being_asked_about(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, most_asked=10, most_followed=100)
    bench = make_bench()

    def leader(request: object) -> object:
        if not isinstance(request, OffsetForLeaderEpochRequest):
            return answer(request)
        return OffsetForLeaderEpochResponse(
            tuple(
                EpochEndOffset("t", each.partition, ErrorCode.UNKNOWN_LEADER_EPOCH)
                if each.partition < 15
                else EpochEndOffset("t", each.partition, ErrorCode.NONE, LeaderEpoch(1), Offset(3))
                for each in request.partitions
            )
        )

    bench.transport.leader = leader
    replicas = [Replica("t", number) for number in range(25)]
    followed(bench.fetchers(), replicas)
    bench.kernel.run_for(1_000)
    fetched = [each.topic_partition.partition for each in replicas if each.fetched]
    assert fetched == list(range(15, 25))


def test_a_leaders_further_partitions_have_further_fetchers(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, most_asked=10, most_followed=10)
    bench = make_bench()
    bench.transport.leader = answer
    registry = bench.fetchers()
    replicas = [Replica("t", number) for number in range(25)]
    followed(registry, replicas)
    bench.kernel.run_for(100)
    assert all(each.fetched for each in replicas)
    named = [each for each in bench.transport.asked if isinstance(each, FetchRequest)]
    assert max(len(each.partitions) for each in named) == 10
    assert Counter(key.name for key in registry._fetcher_of.values()) == {
        "ReplicaFetcherThread-2": 10,
        "ReplicaFetcherThread-2-more-1": 10,
        "ReplicaFetcherThread-2-more-2": 5,
    }


def test_room_that_partitions_leave_is_used_before_another_fetcher_begins(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, most_asked=10, most_followed=10)
    bench = make_bench()
    bench.transport.leader = answer
    registry = bench.fetchers()
    replicas = [Replica("t", number) for number in range(20)]
    followed(registry, replicas)
    for each in replicas[:3] + replicas[10:]:
        registry.remove(each.topic_partition)
    registry.drop_idle()
    assert [key.more for key in registry._fetchers] == [0]
    followed(registry, replicas[10:14])
    assert Counter(key.more for key in registry._fetcher_of.values()) == {0: 10, 1: 1}
    bench.kernel.run_for(100)
    assert all(each.fetched for each in replicas[3:14])


def test_fetchers_with_room_for_all_stay_one_for_each_leader(make_bench: MakeBench) -> None:
    registry = make_bench().fetchers()
    followed(registry, [Replica("t", number) for number in range(1_000)])
    assert [key.name for key in registry._fetchers] == ["ReplicaFetcherThread-2"]
