"""An offsets partition's leader loads its groups, and forgets them with the leadership."""

from __future__ import annotations

from collections import Counter

import pytest

from highwater_broker.coordinator.logic.placement import offsets_partition
from highwater_broker.coordinator.records import encode
from highwater_broker.coordinator.stored import (
    GroupForgotten,
    GroupStored,
    OffsetForgotten,
)
from highwater_broker.log.record_batch import LogRefused
from highwater_core.errors import ErrorCode
from highwater_core.fail_points import FailPoint
from highwater_core.ids import LeaderEpoch, TopicPartition
from highwater_core.messages import FailPointAction, SetFailPointRequest
from highwater_wire.kafka.record_batch import build_batch
from tests.unit.coordinator.conftest import PARTITION_COUNT, CoordinatorWorld, committed, put


def stored(group_id: str, generation: int) -> GroupStored:
    return GroupStored(group_id, "consumer", generation, None, None)


def test_a_group_of_a_partition_that_is_led_elsewhere_is_not_coordinated(
    world: CoordinatorWorld,
) -> None:
    assert world.ownership.refusal("g") is ErrorCode.NOT_COORDINATOR
    world.host_for("g")
    assert world.ownership.refusal("g") is ErrorCode.NOT_COORDINATOR
    world.size.count = 0
    assert world.ownership.refusal("g") is ErrorCode.NOT_COORDINATOR


def test_the_logs_groups_are_served_once_it_is_read(world: CoordinatorWorld) -> None:
    partition = world.host_for(
        "g", [stored("g", 1), committed("g", 5)], [committed("g", 7, partition=1)]
    )
    world.lead(partition)
    assert world.ownership.refusal("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    partition.commit(partition.log_end_offset)
    world.kernel.run_for(100)
    assert world.ownership.refusal("g") is ErrorCode.NONE
    assert (world.cache.offset("g"), world.cache.offset("g", partition=1)) == (5, 7)
    number = partition.topic_partition.partition
    assert world.cache.groups[number]["g"].stored == stored("g", 1)
    (ended,) = world.trace.of("group_load_ended")
    assert (ended["leader_epoch"], ended["groups"], ended["offsets"]) == (5, 1, 2)


def test_a_load_waits_while_the_number_of_partitions_is_not_known(world: CoordinatorWorld) -> None:
    """Metadata tells of the topic's deletion before the leader is told to stop its replica."""
    partition = world.host_for("g", [committed("g", 5)])
    world.lead(partition)
    world.kernel.run_for(100)
    world.size.count = world.size.learned = 0
    partition.commit(partition.log_end_offset)
    world.kernel.run_for(2_000)
    assert world.trace.of("group_load_failed")[0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert world.ownership.is_loading()
    world.size.learned = PARTITION_COUNT
    world.kernel.run_for(2_000)
    assert world.cache.offset("g") == 5


def test_groups_of_another_partition_are_reported(world: CoordinatorWorld) -> None:
    """As after a folder was restored under another partition's name."""
    number = offsets_partition("g", PARTITION_COUNT)
    world.lead_loaded(world.host(number, [committed("g", 5)]))
    assert world.trace.of("bad_input_met") == []
    world.lead_loaded(world.host((number + 1) % PARTITION_COUNT, [committed("g", 7)]))
    (told,) = world.trace.of("bad_input_met")
    assert told["what"] == "1 groups of other partitions, the first 'g'"


def test_long_ids_of_groups_are_hashed_a_few_at_a_time(world: CoordinatorWorld) -> None:
    """The longest id takes 4 ms; thousands of them at once would end the broker by its watchdog."""
    ids = ["x" * 32_000 + str(number) for number in range(40)]
    partition = world.host(0, *([committed(each, 5), committed(each, 6)] for each in ids))
    asked: Counter[int] = Counter()
    partition_of = world.ownership.partition_of

    def count(group_id: str) -> int:
        asked[world.kernel.event_count] += 1
        return partition_of(group_id)

    world.ownership.partition_of = count  # type: ignore[method-assign]
    world.lead_loaded(partition)
    assert asked.total() == len(ids), "each once"
    assert max(asked.values()) <= 2, "of one step"


def test_nothing_is_served_while_nobody_says_how_many_partitions_there_are(
    world: CoordinatorWorld,
) -> None:
    """A group would be looked for in another partition than its own."""
    world.size.count = world.size.learned = 0
    partition = world.host_for("g", [committed("g", 5)])
    world.lead(partition)
    partition.commit(1)
    world.kernel.run_for(2_000)
    assert (world.cache.told, world.ownership.refusal("g")) == ([], ErrorCode.NOT_COORDINATOR)
    world.size.learned = PARTITION_COUNT
    world.kernel.run_for(600)
    assert world.cache.offset("g") == 5


def test_a_later_record_counts_and_a_tombstone_forgets(world: CoordinatorWorld) -> None:
    partition = world.host_for(
        "g",
        [committed("g", 9), committed("g", 1, partition=1), stored("g", 1)],
        [committed("g", 3), OffsetForgotten("g", "t", 1), stored("g", 2)],
        [committed("gone", 1)],
        [OffsetForgotten("gone", "t", 0), stored("gone", 1), GroupForgotten("gone")],
    )
    world.lead_loaded(partition)
    assert (world.cache.offset("g"), world.cache.offset("g", partition=1)) == (3, None)
    groups = world.cache.groups[partition.topic_partition.partition]
    assert list(groups) == ["g"]
    assert groups["g"].stored == stored("g", 2)


def test_offsets_outlive_the_tombstone_of_their_group(world: CoordinatorWorld) -> None:
    partition = world.host_for("g", [stored("g", 1), committed("g", 4)], [GroupForgotten("g")])
    world.lead_loaded(partition)
    assert world.cache.groups[partition.topic_partition.partition]["g"].stored is None
    assert world.cache.offset("g") == 4


def test_a_load_waits_for_all_that_the_leader_before_may_have_acknowledged(
    world: CoordinatorWorld,
) -> None:
    """A new leader's high watermark lags its predecessor's: Kafka's load would stop there."""
    partition = world.host_for("g", [committed("g", 1)], [committed("g", 2)])
    world.lead(partition)
    partition.commit(1)
    world.kernel.run_for(25_000)
    assert world.ownership.refusal("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.ownership.is_loading()
    assert [each["high_watermark"] for each in world.trace.of("group_load_waited")] == [1, 1]
    partition.commit(2)
    world.kernel.run_for(100)
    assert world.cache.offset("g") == 2
    assert not world.ownership.is_loading()


def test_who_loses_the_lead_forgets_at_once(world: CoordinatorWorld) -> None:
    partition = world.host_for("g", [committed("g", 1)])
    world.lead_loaded(partition)
    partition.lose_leadership()
    assert world.ownership.refusal("g") is ErrorCode.NOT_COORDINATOR
    assert world.cache.groups == {}
    (unloaded,) = world.trace.of("group_unloaded")
    assert (unloaded["since_epoch"], unloaded["was_loaded"]) == (5, True)


def test_a_leader_that_leads_on_in_a_new_epoch_keeps_its_groups(world: CoordinatorWorld) -> None:
    partition = world.host_for("g", [committed("g", 1)])
    world.lead_loaded(partition)
    world.lead(partition)
    assert world.ownership.refusal("g") is ErrorCode.NONE
    assert dict(world.ownership.loaded()) == {partition.topic_partition: LeaderEpoch(5)}
    assert world.cache.told == [("take_over", partition.topic_partition.partition)]


def test_a_load_that_is_late_does_not_undo_an_unload(world: CoordinatorWorld) -> None:
    """KAFKA-2841: elected, resigned and elected in quick succession."""
    partition = world.host_for("g", [committed("g", 1)])
    number = partition.topic_partition.partition
    world.lead(partition)
    partition.commit(1)
    partition.lose_leadership()
    world.kernel.run_for(100)
    assert world.cache.told == []
    world.lead(partition)
    partition.lose_leadership()
    world.lead(partition)
    put(partition, [committed("g", 2)])
    partition.commit(2)
    world.kernel.run_for(100)
    assert world.cache.told == [("take_over", number)]
    assert [each["since_epoch"] for each in world.trace.of("group_load_ended")] == [9]


def test_a_load_may_be_held_before_it_reads_and_its_lead_be_lost_meanwhile(
    world: CoordinatorWorld,
) -> None:
    """KAFKA-2841, by the fail-point: the load goes on in a term that is over."""
    partition = world.host_for("g", [committed("g", 1)])
    hold = SetFailPointRequest(FailPoint.BEFORE_GROUP_LOAD, FailPointAction.DELAY, 1, 3_000)
    assert world.fail_points.answer(hold).error is ErrorCode.NONE
    world.lead(partition)
    partition.commit(1)
    world.kernel.run_for(2_900)
    assert world.ownership.refusal("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    partition.lose_leadership()
    world.kernel.run_for(1_000)
    assert world.ownership.refusal("g") is ErrorCode.NOT_COORDINATOR
    assert world.cache.told == []


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_replica_that_is_stopped_is_unloaded(world: CoordinatorWorld, is_loaded: bool) -> None:
    partition = world.host_for("g", [committed("g", 1)])
    (world.lead_loaded if is_loaded else world.lead)(partition)
    del world.hosted[partition.topic_partition]
    partition.stop(LeaderEpoch(9))
    world.kernel.run_for(100)
    assert world.ownership.refusal("g") is ErrorCode.NOT_COORDINATOR
    assert world.cache.groups == {}
    assert len(world.trace.of("group_unloaded")) == 1


def test_another_topics_partition_is_none_of_the_coordinators(world: CoordinatorWorld) -> None:
    world.ownership.role_changed(TopicPartition("t", 0))
    assert world.trace.events == []


def test_a_disk_that_refuses_is_asked_again_and_nothing_less_is_served(
    world: CoordinatorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise LogRefused(ErrorCode.KAFKA_STORAGE_ERROR, "no such block")

    partition = world.host_for("g", [committed("g", 1)])
    with monkeypatch.context() as patched:
        patched.setattr(partition.log, "read", refuse)
        world.lead(partition)
        partition.commit(1)
        world.kernel.run_for(2_200)
    failed = world.trace.of("group_load_failed")
    assert [each["error"] for each in failed] == ["KAFKA_STORAGE_ERROR"] * 5
    assert world.ownership.refusal("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.kernel.run_for(600)
    assert world.cache.offset("g") == 1


def test_records_of_no_group_are_left_out_and_traced(world: CoordinatorWorld) -> None:
    partition = world.host_for("g", [committed("g", 1)])
    key, value = encode(committed("g", 2))
    for pair in ((None, b"x"), (b"\x00\x09", b""), (key, (value or b"")[:-1])):
        world.lead(partition)
        outcome = partition.append(build_batch([(*pair, 1_000)]), 1, 1_000)
        assert outcome.error is ErrorCode.NONE
    partition.lose_leadership()
    world.lead_loaded(partition)
    assert world.cache.offset("g") == 1
    assert world.trace.of("group_load_ended")[-1]["skipped"] == 3
    assert [each["where"] for each in world.trace.of("bad_input_met")] == ["offsets record at 1"]


def test_thousands_of_offsets_are_loaded_in_many_steps(world: CoordinatorWorld) -> None:
    count, in_batch = 4_000, 400
    partition = world.host_for(
        "g",
        *(
            [committed("g", number, "t", first + number) for number in range(in_batch)]
            for first in range(0, count, in_batch)
        ),
    )
    world.lead(partition)
    partition.commit(count)
    steps = 0

    async def other_work() -> None:
        nonlocal steps
        while world.ownership.refusal("g") is not ErrorCode.NONE:
            steps += 1
            await world.runtime.sleep(0)

    world.scope.spawn("other work", other_work())
    world.kernel.run_for(1_000)
    assert len(world.cache.groups[partition.topic_partition.partition]["g"].offsets) == count
    assert steps >= count / in_batch
