"""Unused offsets expire after a time, but never while a commit is under way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater_broker.coordinator.expiry import TOMBSTONES_AT_ONCE, OffsetExpiry
from highwater_broker.coordinator.group import Group
from highwater_broker.coordinator.logic.group_states import GroupState
from highwater_broker.coordinator.logic.offset_expiry import ExpiryFacts, expired_offsets
from highwater_broker.coordinator.records import decode
from highwater_broker.coordinator.stored import OffsetCommitted, OffsetForgotten
from highwater_core.errors import ErrorCode
from highwater_core.ids import Offset, TopicPartition
from highwater_wire.kafka.record_batch import decode_records, split_batches
from tests.support.hosted import HostedPartition
from tests.unit.coordinator.conftest import CoordinatorWorld, committed

RETENTION_MS = 1_000
OLD, NEW, OWN = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("c", 0)
OFFSETS = {
    OLD: OffsetCommitted("g", *OLD, Offset(1), commit_timestamp_ms=5_000),
    NEW: OffsetCommitted("g", *NEW, Offset(1), commit_timestamp_ms=9_500),
    OWN: OffsetCommitted(
        "g", *OWN, Offset(1), commit_timestamp_ms=5_000, expire_timestamp_ms=20_000
    ),
}
EMPTY, STABLE = GroupState.EMPTY, GroupState.STABLE


@pytest.mark.parametrize(
    ("state", "protocol_type", "since_ms", "topics", "now_ms", "expected"),
    [
        # Of consumers that join no group: from the commit on.
        (EMPTY, None, 0, None, 5_999, ()),
        (EMPTY, None, 0, None, 6_000, (OLD,)),
        (EMPTY, None, 9_999, None, 20_000, (OLD, NEW, OWN)),
        # Of an empty group: from when it became empty, if that is known.
        (EMPTY, "consumer", 9_000, None, 9_999, ()),
        (EMPTY, "consumer", 9_000, None, 10_000, (OLD, NEW)),
        (EMPTY, "consumer", -1, None, 10_000, (OLD,)),
        (EMPTY, "connect", 9_000, None, 10_000, (OLD, NEW)),
        # Of a stable group: only of topics that nobody subscribes to, if that is known.
        (STABLE, "consumer", 0, frozenset({"a", "c"}), 30_000, (NEW,)),
        (STABLE, "consumer", 0, frozenset({"b"}), 10_000, (OLD,)),
        (STABLE, "consumer", 0, None, 30_000, ()),
        (STABLE, "connect", 0, frozenset(), 30_000, ()),
        # While it rebalances nothing expires.
        (GroupState.PREPARING_REBALANCE, "consumer", 0, frozenset(), 30_000, ()),
        (GroupState.COMPLETING_REBALANCE, "consumer", 0, frozenset(), 30_000, ()),
    ],
)
def test_offsets_expire_as_kip_211_says(
    state: GroupState,
    protocol_type: str | None,
    since_ms: int,
    topics: frozenset[str] | None,
    now_ms: int,
    expected: tuple[TopicPartition, ...],
) -> None:
    facts = ExpiryFacts(state, protocol_type, since_ms, topics, OFFSETS)
    assert expired_offsets(facts, now_ms, RETENTION_MS) == expected


class Looks:
    """An expiry over a real log, every 10 seconds, of one group that nobody joins."""

    def __init__(self, world: CoordinatorWorld, group_id: str = "g", **fields: object) -> None:
        self.partition = world.host_for(group_id)
        world.lead_loaded(self.partition)
        self.group = Group(group_id, self.partition.topic_partition.partition, **fields)  # type: ignore[arg-type]
        self.deleted: list[str] = []
        expiry = OffsetExpiry(
            world.runtime,
            world.trace,  # type: ignore[arg-type]
            world.log,
            lambda: (self.group,),
            self._delete,
            retention_ms=RETENTION_MS,
            check_interval_ms=10_000,
        )
        world.scope.spawn("expiry", expiry.run())

    async def _delete(self, group_id: str) -> ErrorCode:
        self.deleted.append(group_id)
        return ErrorCode.NONE


def records_of(partition: HostedPartition) -> list[object]:
    read = partition.log.read(partition.log_start_offset, 1 << 20, partition.log_end_offset)
    data = read.records if isinstance(read.records, bytes) else read.records.read()  # type: ignore[union-attr]
    return [
        decode(each.key, each.value)
        for batch in split_batches(data)
        for each in decode_records(batch.data)
    ]


def test_expired_offsets_are_forgotten_in_the_log_first(world: CoordinatorWorld) -> None:
    looks = Looks(world, offsets={OLD: replace(OFFSETS[OLD], commit_timestamp_ms=0)})
    world.kernel.run_for(10_000)
    assert records_of(looks.partition) == [OffsetForgotten("g", *OLD)]
    assert list(looks.group.offsets) == [OLD]
    looks.partition.commit(1)
    world.kernel.run_for(0)
    assert looks.group.offsets == {}
    (expired,) = world.trace.of("offsets_expired")
    assert expired["partitions"] == ["a-0"]
    assert looks.deleted == ["g"], "nothing is left of it"


@pytest.mark.parametrize("group_id", ["g", "g" * 20_000], ids=["short", "long"])
def test_offsets_of_a_group_with_a_long_name_are_forgotten_too(
    world: CoordinatorWorld, group_id: str
) -> None:
    """Found: a hundred tombstones of 10,000 characters passed 1 MiB, and no offset was forgotten
    ever."""
    expired = replace(OFFSETS[OLD], commit_timestamp_ms=0, group_id=group_id)
    many = {TopicPartition("a", number): expired for number in range(120)}
    looks = Looks(world, group_id, offsets=dict(many))
    for _ in range(60):
        world.kernel.run_for(1_000)
        looks.partition.commit(int(looks.partition.log_end_offset))
    assert looks.group.offsets == {}
    named = [len(event["partitions"]) for event in world.trace.of("offsets_expired")]
    assert sum(named) == len(many)
    assert max(named) <= TOMBSTONES_AT_ONCE, "a line of the trace is short"


def test_nothing_is_forgotten_while_a_commit_is_on_its_way(world: CoordinatorWorld) -> None:
    """Its tombstone would come after the commit, which is acknowledged."""
    looks = Looks(world, offsets={OLD: replace(OFFSETS[OLD], commit_timestamp_ms=0)})
    world.kernel.run_for(8_000)
    answers = world.start_append("g", committed("g", 2, *OLD))
    world.kernel.run_for(3_000)
    assert answers == []
    assert len(records_of(looks.partition)) == 1
    assert list(looks.group.offsets) == [OLD]


def test_a_tombstone_that_is_not_committed_forgets_nothing_here(world: CoordinatorWorld) -> None:
    looks = Looks(world, offsets={OLD: replace(OFFSETS[OLD], commit_timestamp_ms=0)})
    world.kernel.run_for(10_000)
    looks.partition.lose_leadership()
    world.kernel.run_for(0)
    assert list(looks.group.offsets) == [OLD]


def test_an_empty_group_of_which_nothing_is_left_is_deleted(world: CoordinatorWorld) -> None:
    looks = Looks(world, generation=1, protocol_type="consumer")
    world.kernel.run_for(10_000)
    assert looks.deleted == ["g"]


def test_a_group_with_a_member_about_to_join_is_kept(world: CoordinatorWorld) -> None:
    looks = Looks(world, generation=1, pending_ids={"m": None})
    world.kernel.run_for(10_000)
    assert looks.deleted == []
