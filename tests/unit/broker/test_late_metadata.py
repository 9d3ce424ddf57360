"""A late copy of UpdateMetadata changes nothing (found by the simulator: L3)."""

from __future__ import annotations

from highwater_broker.metadata_cache import MetadataCache
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicPartition,
)
from highwater_core.messages import PartitionMetadata, UpdateMetadataRequest

T0 = TopicPartition("t", 0)


def update(controller_epoch: int, number: int, isr: tuple[int, ...]) -> UpdateMetadataRequest:
    members = tuple(NodeId(broker) for broker in isr)
    partition = PartitionMetadata(
        T0, members[0], LeaderEpoch(0), members, members, PartitionEpoch(number)
    )
    return UpdateMetadataRequest(
        NodeId(1000), ControllerEpoch(controller_epoch), BrokerEpoch(7), (), (partition,), number
    )


def isr_after(*updates: UpdateMetadataRequest) -> tuple[int, ...]:
    cache = MetadataCache()
    for each in updates:
        cache.update(each)
    found = cache.partition("t", 0)
    assert found is not None
    return found.isr


def test_later_metadata_stays_when_a_late_copy_arrives() -> None:
    assert isr_after(update(1, 2, (0, 1)), update(1, 3, (0, 1, 2)), update(1, 2, (0, 1))) == (
        0,
        1,
        2,
    )


def test_a_repeat_of_the_last_update_is_taken_again() -> None:
    assert isr_after(update(1, 2, (0, 1)), update(1, 2, (0, 1))) == (0, 1)


def test_a_new_controller_begins_its_numbers_anew() -> None:
    assert isr_after(update(1, 9, (0, 1)), update(2, 1, (0,))) == (0,)


def test_an_earlier_controllers_copy_is_late_even_with_a_higher_number() -> None:
    assert isr_after(update(2, 1, (0,)), update(1, 9, (0, 1))) == (0,)
