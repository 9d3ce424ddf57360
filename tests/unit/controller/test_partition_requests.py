"""Topics get more partitions: refusals, the written znodes, and the new leaders."""

from __future__ import annotations

import pytest

from highwater_controller import topic_requests
from highwater_core import partition_plans, topic_plans, znodes
from highwater_core.admin_messages import (
    AlterReassignmentsRequest,
    CreatePartitionsRequest,
    NewPartitions,
    ReassignmentItem,
)
from highwater_core.assignments import assign_more_replicas
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import DeleteTopicsRequest
from highwater_core.topic_znode import decode_topic, encode_topic

E = ErrorCode
P0 = TopicPartition("t", 0)


def expand(cluster, *topics, controller_id=1000, **options):
    response = cluster.ask(CreatePartitionsRequest(tuple(topics), **options), controller_id)
    assert response.error is E.NONE
    assert [result.name for result in response.results] == [each.topic for each in topics]
    cluster.settle()
    return [result.error for result in response.results]


def topic(cluster, name="t"):
    return decode_topic(cluster.data(znodes.topic_path(name)), name)


def replicas(cluster, name="t"):
    return list(topic(cluster, name).assignment.values())


@pytest.fixture
def two(running):
    """Topic t has two partitions of two replicas each."""
    running.create_topic("t", (1, 2), (2, 0))
    running.settle()
    return running


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (NewPartitions("t", 3), E.NONE),
        (NewPartitions("t", 9), E.NONE),
        (NewPartitions("t", 3, ((0, 2),)), E.NONE),
        (NewPartitions("t", 4, ((0, 2), (2, 1))), E.NONE),
        (NewPartitions("unknown", 3), E.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("", 3), E.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("t", 2), E.INVALID_PARTITIONS),
        (NewPartitions("t", 1), E.INVALID_PARTITIONS),
        (NewPartitions("t", 0), E.INVALID_PARTITIONS),
        (NewPartitions("t", -(2**31)), E.INVALID_PARTITIONS),
        (NewPartitions("t", 10_001), E.INVALID_PARTITIONS),
        (NewPartitions("t", 2**31 - 1), E.INVALID_PARTITIONS),
        (NewPartitions("t", 2, ((0, 2),)), E.INVALID_PARTITIONS),
        (NewPartitions("t", 4, ((0, 2),)), E.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((0, 2), (2, 1))), E.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((0, 0),)), E.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((0, 9),)), E.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((0, -1),)), E.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((0,),)), E.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((),)), E.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 4, ((0, 1), (0, 1, 2))), E.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_the_partitions_that_may_be_added(two, wanted, error, validate_only):
    before = two.data(znodes.topic_path("t"))
    assert expand(two, wanted, validate_only=validate_only) == [error]
    is_written = error is E.NONE and not validate_only
    assert (two.data(znodes.topic_path("t")) != before) == is_written
    refused = two.events(EventKind.REQUEST_REFUSED)
    assert [event.detail["error"] for event in refused] == [error.name] * (error is not E.NONE)
    if is_written:
        assert len(replicas(two)) == wanted.total_count


def test_added_partitions_are_led_when_the_client_has_its_answer_and_others_stay(two):
    topic_id = topic(two).topic_id
    states = [two.state("t", number) for number in range(2)]
    request = CreatePartitionsRequest((NewPartitions("t", 4, ((0, 1), (2, 1))),))
    assert [result.error for result in two.ask(request).results] == [E.NONE]
    assert replicas(two) == [(1, 2), (2, 0), (0, 1), (2, 1)]
    assert topic(two).topic_id == topic_id
    assert [two.state("t", number).leader for number in range(4)] == [1, 2, 0, 2]
    assert [two.state("t", number) for number in range(2)] == states
    for number, leader in ((2, 0), (3, 2)):
        told = two.brokers[leader].leaderships()[TopicPartition("t", number)]
        assert (told.leader, told.is_new, told.topic_id) == (leader, True, topic_id)
    (created,) = two.events(EventKind.PARTITIONS_CREATED)
    assert created.detail == {"first_partition": 2, "assignment": [[0, 1], [2, 1]]}


def test_preset_v3_adds_partitions_to_a_topic_without_an_id(cluster):
    cluster.start_broker(0)
    cluster.start_controller(preset=Preset.V3)
    cluster.until_failed_over()
    cluster.create_topic("t", (0,))
    assert expand(cluster, NewPartitions("t", 2)) == [E.NONE]
    assert cluster.data(znodes.topic_path("t")) == b'{"version":1,"partitions":{"0":[0],"1":[0]}}'


@pytest.mark.parametrize(
    ("brokers", "assigned", "total_count", "added"),
    [
        ((0, 1, 2), ((0, 1),), 4, ((1, 2), (2, 0), (0, 2))),
        ((0, 1, 2), ((1, 2), (2, 0)), 4, ((0, 2), (1, 2))),
        ((0, 1, 2), ((2,),), 3, ((0,), (1,))),
        ((0, 3), ((2, 1),), 2, ((0, 3),)),
        ((0, 1), ((7, 1),), 2, ((1, 0),)),
    ],
)
def test_the_rounds_of_replicas_go_on_where_they_were(brokers, assigned, total_count, added):
    assert assign_more_replicas(brokers, assigned, total_count) == added


def test_a_topic_with_more_replicas_than_live_brokers_gets_no_partition(two):
    two.create_topic("wide", (0, 1, 2))
    two.brokers[0].die()
    two.settle(10_000)
    assert expand(two, NewPartitions("wide", 2)) == [E.INVALID_REPLICATION_FACTOR]
    assert expand(two, NewPartitions("wide", 2, ((0, 1, 2),))) == [E.INVALID_REPLICA_ASSIGNMENT]
    assert expand(two, NewPartitions("t", 3)) == [E.NONE]


def test_each_topic_of_a_request_has_its_own_outcome(two):
    two.create_topic("u", (0,))
    outcomes = expand(
        two,
        NewPartitions("t", 3),
        NewPartitions("none", 3),
        NewPartitions("twice", 3),
        NewPartitions("u", 2),
        NewPartitions("twice", 4),
    )
    assert outcomes == [
        E.NONE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.INVALID_REQUEST,
        E.NONE,
        E.INVALID_REQUEST,
    ]
    assert expand(two) == []


def test_a_topic_that_is_being_deleted_gets_no_partition(two):
    two.brokers[1].die()
    two.settle(10_000)
    two.ask(DeleteTopicsRequest(("t",), 100))
    assert expand(two, NewPartitions("t", 3)) == [E.INVALID_TOPIC_EXCEPTION]


def test_a_topic_whose_replicas_are_being_moved_gets_no_partition(two):
    item = ReassignmentItem(TopicPartition("t", 1), (NodeId(1), NodeId(2)))
    two.ask(AlterReassignmentsRequest((item,)))
    assert expand(two, NewPartitions("t", 3)) == [E.REASSIGNMENT_IN_PROGRESS]
    assert len(replicas(two)) == 2


def test_a_topic_with_gaps_between_its_partitions_gets_none(two):
    gaps = encode_topic({0: (NodeId(0),), 2: (NodeId(1),)}, "")
    two.write(znodes.topic_path("odd"), gaps)
    two.settle()
    assert expand(two, NewPartitions("odd", 4)) == [E.UNKNOWN_SERVER_ERROR]


def test_partitions_that_another_adds_meanwhile_are_not_overwritten(two):
    path = znodes.topic_path("t")
    others = topic(two)
    theirs = {**others.assignment, TopicPartition("t", 2): (NodeId(0), NodeId(1))}
    data = encode_topic({at.partition: each for at, each in theirs.items()}, others.topic_id)
    two.before_multi(path, lambda: two.put(path, data))
    assert expand(two, NewPartitions("t", 3, ((2, 1),))) == [E.INVALID_PARTITIONS]
    assert replicas(two)[2] == (0, 1)
    assert two.state("t", 2).leader == 0, "they are brought up all the same"


def test_partitions_that_are_there_as_wanted_are_our_own(two):
    """The reply to a write may be lost: the next read shows it."""
    path = znodes.topic_path("t")
    others = topic(two)
    ours = {**others.assignment, TopicPartition("t", 2): (NodeId(2), NodeId(1))}
    data = encode_topic({at.partition: each for at, each in ours.items()}, others.topic_id)
    two.before_multi(path, lambda: two.put(path, data))
    assert expand(two, NewPartitions("t", 3, ((2, 1),))) == [E.NONE]


def test_a_topic_that_vanishes_meanwhile_gets_no_partition(two):
    path = znodes.topic_path("t")

    async def another() -> None:
        data = encode_topic({0: (NodeId(0),)}, "f" * 32)
        await two.put(path, data)

    two.before_multi(path, another)
    assert expand(two, NewPartitions("t", 3)) == [E.UNKNOWN_TOPIC_OR_PARTITION]
    assert topic(two).topic_id == "f" * 32


def test_the_answer_waits_for_the_leaders_as_long_as_the_client_does(two):
    two.brokers[1].is_mute = True
    late = expand(two, NewPartitions("t", 3, ((1, 0),)), timeout_ms=2_000)
    assert late == [E.REQUEST_TIMED_OUT]
    assert two.state("t", 2).leader == 1, "under way all the same"


def test_one_request_adds_a_bounded_number_of_partitions(two, monkeypatch):
    two.create_topic("u", (0,))
    for module in (topic_plans, partition_plans):
        monkeypatch.setattr(module, "MAX_PARTITION_COUNT", 5)
    for options in ({"validate_only": True}, {}):
        outcomes = expand(two, NewPartitions("t", 5), NewPartitions("u", 4), **options)
        assert outcomes == [E.NONE, E.POLICY_VIOLATION]
    assert expand(two, NewPartitions("t", 6)) == [E.INVALID_PARTITIONS]


@pytest.mark.parametrize("validate_only", [True, False])
def test_the_cluster_has_a_bounded_number_of_partitions(cluster, validate_only):
    cluster.start_broker(0)
    cluster.start_controller(max_partitions=5)
    cluster.until_failed_over()
    for name in ("t", "u"):
        cluster.create_topic(name, (0,))
    topics = NewPartitions("t", 3), NewPartitions("u", 3)
    assert expand(cluster, *topics, validate_only=validate_only) == [E.NONE, E.POLICY_VIOLATION]


@pytest.mark.parametrize("validate_only", [True, False])
def test_an_assignment_that_fits_no_znode_is_refused(two, monkeypatch, validate_only):
    monkeypatch.setattr(topic_requests, "MAX_REQUEST_BYTES", 300)
    outcome = expand(two, NewPartitions("t", 40), validate_only=validate_only)
    assert outcome == [E.POLICY_VIOLATION]
    assert len(replicas(two)) == 2


def test_a_request_with_too_many_topics_is_refused_as_a_whole_and_traced_once(running):
    names = [f"t{number}" for number in range(topic_plans.MAX_TOPIC_COUNT + 1)]
    outcomes = expand(running, *(NewPartitions(name, 2) for name in names))
    assert set(outcomes) == {E.POLICY_VIOLATION}
    assert len(running.events(EventKind.REQUEST_REFUSED)) == 1


def test_the_next_controller_brings_up_partitions_it_finds_written(two):
    """A controller that dies right after the write has sent no command."""
    two.start_controller(1001)
    data = topic(two)
    more = {**data.assignment, TopicPartition("t", 2): (NodeId(1), NodeId(0))}
    two.controllers[1000].request_stop()
    two.write(
        znodes.topic_path("t"),
        encode_topic({at.partition: each for at, each in more.items()}, data.topic_id),
    )
    two.until(lambda: two.data(znodes.partition_state_path(TopicPartition("t", 2))), "the state")
    assert two.state("t", 2).leader == 1
