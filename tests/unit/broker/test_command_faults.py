"""Commands that no sound controller sends are refused for that partition alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from highwater_broker.logic.command_faults import find_fault, find_faults
from highwater_core.errors import ErrorCode
from highwater_core.ids import (
    BrokerEpoch,
    ControllerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    LeaderAndIsrRequest,
    PartitionMetadata,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

from .conftest import ME, T0, TWO, command
from .test_replica_manager import OWN, Broker, lisr, make_broker

__all__ = ["make_broker"]

E = ErrorCode
CONTROLLER = NodeId(1000)
HOSTILE_NAMES = ("..", ".", "../evil", "a/b", "/etc", "a b", "a\nb", "a\0b", "é", "x" * 250)
SOUND = command(ME, 3)


def at(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_that_no_client_may_give_is_no_topic_of_a_command(name: str) -> None:
    metadata = PartitionMetadata(at(name), ME, LeaderEpoch(0), (ME,), (ME,), PartitionEpoch(0))
    for each in (
        replace(SOUND, topic_partition=at(name)),
        StopReplicaPartition(at(name), True),
        metadata,
    ):
        assert find_fault(each) is E.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, E.NONE),
        ({"leader_epoch": 2**31 - 1}, E.NONE),
        ({"leader_epoch": 0}, E.NONE),
        ({"partition_epoch": 2**31 - 1}, E.NONE),
        ({"partition_epoch": 1}, E.NONE),
        ({"topic_partition": TopicPartition("t", 2**31 - 1)}, E.NONE),
        ({"topic_partition": TopicPartition("t", 1)}, E.NONE),
        ({"isr": (ME, NodeId(0), NodeId(2**31 - 1))}, E.NONE),
        ({"isr": (ME, NodeId(2**31))}, E.INVALID_REQUEST),
        ({"topic_partition": TopicPartition("t", 2**31)}, E.INVALID_REQUEST),
        ({"leader": NodeId(-1), "isr": ()}, E.NONE),
        ({"assigned_replicas": (ME, TWO)}, E.NONE),
        ({"leader_epoch": 2**31}, E.INVALID_REQUEST),
        ({"leader_epoch": -1}, E.INVALID_REQUEST),
        ({"leader_epoch": -2}, E.INVALID_REQUEST),
        ({"partition_epoch": -1}, E.INVALID_REQUEST),
        ({"partition_epoch": 2**31}, E.INVALID_REQUEST),
        ({"topic_partition": TopicPartition("t", -1)}, E.INVALID_REQUEST),
        ({"topic_id": TopicId("../../evil")}, E.INVALID_REQUEST),
        ({"topic_id": TopicId("a" * 31 + "\n")}, E.INVALID_REQUEST),
        ({"isr": ()}, E.INVALID_REQUEST),
        ({"isr": (TWO,)}, E.INVALID_REQUEST),
        ({"isr": (ME, TWO, TWO)}, E.INVALID_REQUEST),
        ({"isr": (ME, NodeId(-7))}, E.INVALID_REQUEST),
        ({"leader": NodeId(-2)}, E.INVALID_REQUEST),
        ({"assigned_replicas": (ME, TWO, ME)}, E.INVALID_REPLICA_ASSIGNMENT),
        ({"assigned_replicas": (ME, NodeId(-1))}, E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_the_valid_fields_of_a_leadership(fields: dict[str, Any], error: ErrorCode) -> None:
    assert find_fault(replace(SOUND, **fields)) is error


@pytest.mark.parametrize("epoch", [-3, 2**31])
def test_a_stop_has_an_epoch_or_one_of_the_two_that_are_none(epoch: int) -> None:
    assert find_fault(StopReplicaPartition(T0, True, LeaderEpoch(epoch))) is E.INVALID_REQUEST
    for known in (-1, -2, 0, 2**31 - 1):
        assert find_fault(StopReplicaPartition(T0, True, LeaderEpoch(known))) is E.NONE


def test_a_partition_that_is_named_twice_is_refused_whole() -> None:
    other = replace(SOUND, topic_partition=at("u"))
    assert find_faults(lisr(SOUND, other, replace(SOUND, leader=TWO))) == {T0: E.INVALID_REQUEST}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_bad_partition_costs_a_command_nothing_but_itself(
    make_broker: Callable[..., Broker], name: str
) -> None:
    broker = make_broker()
    files = broker.bench.ports.files
    bad = replace(SOUND, topic_partition=at(name))
    answer = broker.carry_out(lisr(bad, SOUND, is_init=True))
    assert answer.error is E.NONE
    assert answer.partition_errors == ((at(name), E.INVALID_TOPIC_EXCEPTION), (T0, E.NONE))
    assert broker.role() == ("leader", 3)
    stop = StopReplicaPartition(at(name), delete_partition=True)
    metadata = PartitionMetadata(at(name), ME, LeaderEpoch(0), (ME,), (ME,), PartitionEpoch(0))
    for request in (
        StopReplicaRequest(CONTROLLER, ControllerEpoch(1), OWN, (stop,)),
        UpdateMetadataRequest(CONTROLLER, ControllerEpoch(1), OWN, (), (metadata,)),
    ):
        answer = broker.carry_out(request)
        assert answer.partition_errors == ((at(name), E.INVALID_TOPIC_EXCEPTION),)
    assert broker.metadata.topics() == ()
    assert [each for each in files.list("") if files.list(each)] == ["t-0"]


def test_the_highest_epoch_there_is_is_led_followed_and_stopped(
    make_broker: Callable[..., Broker],
) -> None:
    broker = make_broker()
    highest = 2**31 - 1
    assert broker.carry_out(lisr(command(ME, highest))).partition_errors == ((T0, E.NONE),)
    partition = broker.manager.get(T0)
    assert partition is not None
    assert broker.role() == ("leader", highest)
    request = LeaderAndIsrRequest(
        CONTROLLER, ControllerEpoch(1), BrokerEpoch(OWN), False, (command(TWO, highest),)
    )
    broker.carry_out(request)
    assert broker.role() == ("leader", highest), "a repeat changes nothing"
