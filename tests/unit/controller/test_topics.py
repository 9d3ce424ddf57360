"""Topics: requested by clients or found in ZooKeeper; deleted, also with a dead replica."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater_controller.context import Replica
from highwater_controller.controller_events import StopReplicaAnswered
from highwater_controller.logic.replica_states import ReplicaState
from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    LEADER_DURING_DELETE,
    NO_TOPIC_ID,
    BrokerEpoch,
    ControllerEpoch,
    NodeId,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    CommandResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    LeaderAndIsrRequest,
    NewTopic,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from highwater_core.topic_znode import decode_topic, encode_topic

P0 = TopicPartition("t", 0)


def create(cluster, *topics, **options):
    response = cluster.ask(CreateTopicsRequest(tuple(topics), **options))
    assert response.error is ErrorCode.NONE
    return [result.error for result in response.results]


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("ok", 4, 3), ErrorCode.NONE),
        (NewTopic("defaults", -1, -1), ErrorCode.NONE),
        (NewTopic("x" * 249, 1, 1), ErrorCode.NONE),
        (NewTopic("x" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a\n", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("bad", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("bad", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("bad", 10_001, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("bad", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("given", -1, -1, ((2, 0), (1, 2))), ErrorCode.NONE),
        (NewTopic("bad", -1, -1, ((0, 0),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("bad", -1, -1, ((0, 9),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("bad", 1, 1, (), (("no.such", "1"),)), ErrorCode.INVALID_CONFIG),
        (NewTopic("cfg", 1, 1, (), (("retention.ms", "5"),)), ErrorCode.NONE),
    ],
)
def test_the_topics_that_may_be_created(running, topic, error):
    assert create(running, topic) == [error]
    exists = running.data(znodes.topic_path(topic.name)) is not None if topic.name else False
    assert exists == (error is ErrorCode.NONE)
    if error is not ErrorCode.NONE:
        (refused,) = running.events(EventKind.REQUEST_REFUSED)
        assert refused.detail["error"] == error.name


def test_creation_writes_config_assignment_id_and_states(running):
    assert create(
        running, NewTopic("t", -1, -1, ((2, 0), (1, 2)), (("segment.bytes", "1000"),))
    ) == [ErrorCode.NONE]
    path = znodes.topic_path("t")
    assignment, topic_id, _ = decode_topic(running.data(path), "t")
    assert assignment == {P0: (2, 0), TopicPartition("t", 1): (1, 2)}
    assert len(topic_id) == 32
    assert b'"segment.bytes":"1000"' in running.data(znodes.topic_config_path("t"))
    assert (running.state("t", 0).leader, running.state("t", 1).leader) == (2, 1)
    # Every broker knows it when the client has its answer, or soon.
    running.settle()
    for broker in running.brokers.values():
        known = [i for r in broker.heard(UpdateMetadataRequest) for i in r.partitions]
        assert {str(item.topic_partition) for item in known} == {"t-0", "t-1"}


def test_preset_v3_writes_topics_without_an_id(cluster):
    cluster.start_broker(0)
    cluster.start_controller(preset=Preset.V3)
    cluster.until_failed_over()
    cluster.create_topic("t", (0,))
    assert cluster.data(znodes.topic_path("t")) == b'{"version":1,"partitions":{"0":[0]}}'
    assert cluster.brokers[0].leaderships()[P0].topic_id == ""


def test_a_topic_that_exists_or_is_named_twice_is_refused(running):
    assert create(running, NewTopic("t", 1, 1)) == [ErrorCode.NONE]
    assert create(
        running, NewTopic("t", 1, 1), NewTopic("u", 1, 1), NewTopic("v", 1, 1), NewTopic("v", 1, 1)
    ) == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


def test_validate_only_creates_nothing(running):
    assert create(running, NewTopic("t", 1, 1), NewTopic("bad", 0, 1), validate_only=True) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PARTITIONS,
    ]
    assert running.data(znodes.topic_path("t")) is None


def test_creation_waits_for_its_leaders_as_long_as_the_client_does(running):
    running.brokers[1].is_mute = True
    topic = NewTopic("t", -1, -1, ((0, 1), (1, 0)))
    assert create(running, topic, timeout_ms=2_000) == [ErrorCode.REQUEST_TIMED_OUT]
    assert running.state("t", 1).leader == 1  # under way all the same


def test_topics_found_in_zookeeper_get_their_first_leaders_in_one_request_per_broker(running):
    count = len(running.brokers[1].heard(LeaderAndIsrRequest))
    running.write_topic("t", (1, 0), (0, 1), (9, 1))
    running.settle()
    (request,) = running.brokers[1].heard(LeaderAndIsrRequest)[count:]
    assert [(i.topic_partition.partition, i.leader, i.isr) for i in request.partitions] == [
        (0, 1, (1, 0)),
        (1, 0, (0, 1)),
        (2, 1, (1,)),
    ]


def test_a_partition_without_live_replica_is_led_once_one_is_there(running):
    running.write_topic("t", (7,))
    running.settle()
    assert running.data(znodes.partition_state_path(P0)) is None
    running.start_broker(7)
    running.until(lambda: running.data(znodes.partition_state_path(P0)), "the first leader")
    running.settle()
    assert running.brokers[7].leaderships()[P0].is_new


def test_partitions_added_to_a_topic_are_led_too(running):
    running.write_topic("t", (0, 1))
    running.settle()
    running.write_topic("t", (0, 1), (1, 2))
    running.settle()
    assert running.state("t", 1).leader == 1
    assert running.state("t", 0).leader_epoch == 0


def test_deletion_stops_deletes_and_removes_everything(running):
    running.create_topic("t", (0, 1, 2))
    running.create_topic("stays", (0,))
    response = running.delete_topic("t")
    assert response.results[0].error is ErrorCode.NONE
    assert not [path for path in running.zookeeper.dump() if "/t" in path.replace("/topics", "")]
    for broker in running.brokers.values():
        stops = [(i.delete_partition, i.leader_epoch)
                 for r in broker.heard(StopReplicaRequest) for i in r.partitions]  # fmt: skip
        assert stops == [(False, -2), (True, -2)]
        (gone,) = [
            item
            for request in broker.heard(UpdateMetadataRequest)
            for item in request.partitions
            if item.topic_partition == P0 and item.leader == LEADER_DURING_DELETE
        ]
        assert gone.topic_partition == P0
    assert len(running.events(EventKind.TOPIC_DELETED)) == 1
    assert create(running, NewTopic("t", 1, 1)) == [ErrorCode.NONE]


def test_deleting_a_missing_topic_is_refused_and_a_stray_request_is_dropped(running):
    assert running.delete_topic("none").results[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    running.write(znodes.delete_topic_path("none"), b"")
    running.settle()
    assert running.data(znodes.delete_topic_path("none")) is None


def test_a_dead_replica_halts_the_deletion_until_its_broker_returns(running):
    running.create_topic("t", (0, 1))
    running.brokers[1].die()
    running.settle()
    assert running.delete_topic("t").results[0].error is ErrorCode.NONE
    running.settle()
    assert running.data(znodes.topic_path("t")) is not None
    # The live replica is deleted already.
    assert any(i.delete_partition for r in running.brokers[0].heard(StopReplicaRequest)
               for i in r.partitions)  # fmt: skip
    assert create(running, NewTopic("t", 1, 1)) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    returned = running.start_broker(1)
    running.until(lambda: running.events(EventKind.TOPIC_DELETED), "the deletion's end")
    assert returned.heard(LeaderAndIsrRequest)[0].is_init
    assert running.data(znodes.topic_path("t")) is None
    deletes = [r for r in running.brokers[0].heard(StopReplicaRequest)
               if r.partitions[0].delete_partition]  # fmt: skip
    assert len(deletes) == 1  # not asked again: it had confirmed


def test_a_replica_that_dies_while_it_is_deleted_halts_the_deletion_likewise(running):
    running.create_topic("t", (0, 1))
    running.brokers[1].is_mute = True
    answers = []
    running.ask_later(DeleteTopicsRequest(("t",)), answers)
    running.settle()
    assert not answers
    running.brokers[1].die()
    running.until(lambda: answers, "the answer")
    assert running.data(znodes.topic_path("t")) is not None
    running.start_broker(1)
    running.until(lambda: running.events(EventKind.TOPIC_DELETED), "the deletion's end")


def test_a_replica_that_refuses_its_deletion_is_asked_again_after_its_return(running):
    running.create_topic("t", (0, 1))
    running.brokers[1].refused[P0] = ErrorCode.KAFKA_STORAGE_ERROR
    running.delete_topic("t")
    running.settle()
    assert running.data(znodes.topic_path("t")) is not None
    running.brokers[1].die()
    running.settle()
    running.start_broker(1)
    running.until(lambda: running.events(EventKind.TOPIC_DELETED), "the deletion's end")


def test_a_deletion_under_way_is_resumed_by_the_next_controller(running):
    running.create_topic("t", (0, 1))
    running.brokers[1].is_mute = True
    running.ask_later(DeleteTopicsRequest(("t",)), [])
    running.settle()
    running.expire_session()
    running.brokers[1].is_mute = False
    running.until(lambda: running.events(EventKind.TOPIC_DELETED), "the deletion's end", 30_000)
    assert running.data(znodes.delete_topic_path("t")) is None


def test_a_topic_whose_znode_vanishes_is_stopped_everywhere(running):
    running.create_topic("t", (0, 1))

    async def remove(session):
        for path in (
            znodes.partition_state_path(P0),
            znodes.partition_path(P0),
            znodes.partitions_path("t"),
            znodes.topic_path("t"),
        ):
            await session.delete(path)

    running.do(remove)
    running.settle()
    for broker_id in (0, 1):
        (stop,) = running.brokers[broker_id].heard(StopReplicaRequest)
        assert stop.partitions[0].delete_partition
    assert create(running, NewTopic("t", 1, 1)) == [ErrorCode.NONE]


def test_another_topic_of_the_same_name_is_known_by_its_id(running):
    running.create_topic("t", (0,))
    other = encode_topic({0: (1,)}, TopicId("f" * 32))
    running.write(znodes.topic_path("t"), other)
    running.settle()
    (stop,) = running.brokers[0].heard(StopReplicaRequest)
    assert stop.partitions[0].delete_partition
    assert stop.partitions[0].topic_id != "f" * 32


def test_a_tool_that_knows_no_topic_ids_adds_partitions_and_the_topic_keeps_its_id(running):
    """KAFKA-14190. Found: it counted as another topic, and every replica was deleted."""
    running.create_topic("t", (0, 1))
    path = znodes.topic_path("t")
    topic_id = decode_topic(running.data(path), "t").topic_id
    both = {0: (NodeId(0), NodeId(1)), 1: (NodeId(1), NodeId(0))}
    running.write(path, encode_topic(both, NO_TOPIC_ID))
    running.settle()
    assert not any(running.brokers[broker_id].heard(StopReplicaRequest) for broker_id in (0, 1))
    assert running.state("t", 1).leader == 1
    assert running.active()._controller.term.context.topic_id("t") == topic_id
    assert decode_topic(running.data(path), "t") == (
        {TopicPartition("t", number): replicas for number, replicas in both.items()},
        topic_id,
        {},
    )


def test_a_topic_that_gets_an_id_from_a_tool_is_no_other(running):
    running.write_topic("t", (0, 1))
    until_led(running, "t")
    running.write(znodes.topic_path("t"), encode_topic({0: (0, 1)}, TopicId("f" * 32)))
    running.settle()
    assert not any(running.brokers[broker_id].heard(StopReplicaRequest) for broker_id in (0, 1))
    assert running.active()._controller.term.context.topic_id("t") == "f" * 32


@pytest.mark.parametrize("ids", [("f" * 32, NO_TOPIC_ID), (NO_TOPIC_ID, "f" * 32)])
def test_a_topic_created_anew_is_another_one_though_only_one_of_the_two_has_an_id(running, ids):
    path = znodes.topic_path("t")
    running.write(path, encode_topic({0: (0,)}, TopicId(ids[0])))
    until_led(running, "t")

    async def replace_topic(session):
        for each in (
            znodes.partition_state_path(P0),
            znodes.partition_path(P0),
            znodes.partitions_path("t"),
            path,
        ):
            await session.delete(each)
        await session.create(path, encode_topic({0: (1,)}, TopicId(ids[1])))

    running.do(replace_topic)
    running.settle()
    (stop,) = running.brokers[0].heard(StopReplicaRequest)
    assert stop.partitions[0].delete_partition
    assert running.state("t").leader == 1


def test_a_known_topic_that_becomes_malformed_keeps_its_known_assignment(running):
    running.create_topic("t", (0, 1))
    running.write(znodes.topic_path("t"), b"\xff")
    running.settle()
    assert running.events(EventKind.BAD_INPUT_MET)
    running.brokers[0].die()
    running.until(lambda: running.state("t").leader == 1, "the election")


def copy_topic_id(running, *names):
    """Let topics be written with the id of topic t; return their znodes' paths."""
    topic_id = running.active()._controller.term.context.topic_id("t")
    assert topic_id != NO_TOPIC_ID
    for name in names:
        copied = encode_topic({0: (NodeId(1), NodeId(2))}, topic_id)
        running.write(znodes.topic_path(name), copied)
    running.settle()
    return {znodes.topic_path(name) for name in names}


def until_led(running, topic):
    path = znodes.partition_state_path(TopicPartition(topic, 0))
    running.until(lambda: running.data(path) is not None, f"the first leader of {topic}")


def bad_znodes(running):
    return {event.detail["where"] for event in running.events(EventKind.BAD_INPUT_MET)}


def test_a_topic_with_another_ones_id_is_left_out(running):
    """Found: brokers know a log by its topic's id, and truncated one topic's by the other's."""
    running.create_topic("t", (0, 1))
    assert copy_topic_id(running, "a", "u") == bad_znodes(running)
    assert running.data(znodes.partition_state_path(TopicPartition("u", 0))) is None
    repaired = encode_topic({0: (NodeId(1), NodeId(2))}, TopicId("f" * 32))
    running.write(znodes.topic_path("u"), repaired)
    until_led(running, "u")
    running.brokers[0].die()
    running.until(lambda: running.state("t").leader == 1, "the election")


def test_a_known_topic_that_takes_anothers_id_keeps_its_own(running):
    running.create_topic("t", (0, 1))
    running.create_topic("a", (1, 2))
    assert copy_topic_id(running, "a") == bad_znodes(running)
    running.brokers[1].die()
    running.until(lambda: running.state("a").leader == 2, "the election")


def test_a_new_controller_lets_the_topic_that_was_led_keep_its_id(running):
    """Found: it ignored all topics that share an id, and none led once their leader died."""
    running.create_topic("t", (0, 1))
    paths = copy_topic_id(running, "a", "u")
    before = running.data(znodes.topic_path("t"))
    running.write(znodes.topic_path("t"), before)  # the last one written, and led all the same
    running.kill_controller(1000)
    running.start_controller(1001)
    running.until_failed_over()
    running.create_topic("other", (1, 2))  # which lets it read the unknown ones again
    known = running.controllers[1001]._controller.term.context.is_known
    assert [known(topic) for topic in ("a", "t", "u")] == [False, True, False]
    assert all(running.data(f"{path}/partitions") is None for path in paths)
    running.brokers[0].die()
    running.until(lambda: running.state("t").leader == 1, "the election")


def test_topics_that_were_led_and_share_an_id_are_left_out_where_nobody_can_tell_whose_it_is(
    running,
):
    """Found: the id went to the one that had not got more partitions; both had records."""
    running.create_topic("t", (0, 1))
    running.create_topic("a", (1, 2))
    context = running.active()._controller.term.context
    ids = {topic: context.topic_id(topic) for topic in "at"}
    copy_topic_id(running, "a")
    both = {0: (NodeId(0), NodeId(1)), 1: (NodeId(0), NodeId(1))}
    running.write(znodes.topic_path("t"), encode_topic(both, ids["t"]))
    added = znodes.partition_state_path(TopicPartition("t", 1))
    running.until(lambda: running.data(added) is not None, "the expansion")
    running.kill_controller(1000)
    running.start_controller(1001)
    paths = {znodes.topic_path(topic) for topic in "at"}
    running.until(lambda: paths <= bad_znodes(running), "the report")
    known = running.controllers[1001]._controller.term.context.is_known
    assert [known(topic) for topic in "at"] == [False, False]
    repaired = encode_topic({0: (NodeId(1), NodeId(2))}, ids["a"])
    running.write(znodes.topic_path("a"), repaired)
    running.create_topic("other", (1, 2))  # which lets it read the unknown ones again
    running.until(lambda: known("a") and known("t"), "the topics")
    running.brokers[0].die()
    running.until(lambda: running.state("t").leader == 1, "the election")


def test_a_new_controller_lets_the_topic_keep_its_id_that_was_created_with_it(running):
    running.create_topic("t", (0, 1))
    running.create_topic("a", (1, 2))
    running.create_topic("z", (1, 2))
    paths = copy_topic_id(running, "a", "z")
    running.kill_controller(1000)
    running.start_controller(1001)
    running.until(lambda: paths <= bad_znodes(running), "the report")
    running.brokers[0].die()
    running.until(lambda: running.state("t").leader == 1, "the election")
    known = running.controllers[1001]._controller.term.context.is_known
    assert [known(topic) for topic in ("a", "t", "z")] == [False, True, False]


def test_a_deleted_topics_id_is_free(running):
    running.create_topic("t", (0, 1))
    topic_id = running.active()._controller.term.context.topic_id("t")
    assert running.delete_topic("t").error is ErrorCode.NONE
    running.write(znodes.topic_path("u"), encode_topic({0: (NodeId(1),)}, topic_id))
    until_led(running, "u")


def test_an_answer_of_an_earlier_registration_does_not_end_a_deletion(running):
    """It waited in the controller's queue behind the broker's return, which began it anew."""
    running.create_topic("t", (0,))
    broker = running.brokers[0]
    broker.is_mute = True
    running.write(znodes.delete_topic_path("t"), b"")
    controller = running.active()._controller
    context, replica = controller.term.context, Replica(P0, broker.id)
    running.until(
        lambda: context.replica_state(replica) is ReplicaState.DELETION_STARTED, "the deletion"
    )
    registration = context.broker_epoch(broker.id)
    request = StopReplicaRequest(
        NodeId(1000), ControllerEpoch(1), registration, (StopReplicaPartition(P0, True),)
    )
    stale = replace(request, broker_epoch=BrokerEpoch(registration - 1))
    refused = CommandResponse(ErrorCode.STALE_BROKER_EPOCH)
    controller.enqueue(StopReplicaAnswered(broker.id, stale, refused))
    running.settle()
    assert context.replica_state(replica) is ReplicaState.DELETION_STARTED
    done = CommandResponse(ErrorCode.NONE, ((P0, ErrorCode.NONE),))
    controller.enqueue(StopReplicaAnswered(broker.id, request, done))
    running.settle()
    assert running.data(znodes.topic_path("t")) is None


@pytest.mark.parametrize("is_removed_by_hand", [False, True])
def test_nobody_waits_for_the_leaders_of_a_topic_that_is_deleted_meanwhile(
    running, is_removed_by_hand
):
    """Found: the wait was kept until the end of the term."""
    for broker in running.brokers.values():
        broker.refused[P0] = ErrorCode.KAFKA_STORAGE_ERROR
    answers = []
    running.ask_later(CreateTopicsRequest((NewTopic("t", 1, 1),)), answers)
    running.settle(1_000)
    assert answers == []
    for broker in running.brokers.values():
        broker.refused.clear()
    if is_removed_by_hand:
        for child in ("partitions/0/state", "partitions/0", "partitions", ""):
            running.delete(f"{znodes.topic_path('t')}/{child}".rstrip("/"))
    else:
        running.ask(DeleteTopicsRequest(("t",)))
    running.settle(1_000)
    ((result,),) = (answer.results for answer in answers)
    assert result.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result.message == "it was deleted meanwhile"
    assert not running.controllers[1000]._controller.term.waits._creations


def test_what_waits_for_a_topic_that_never_comes_is_told(running):
    """It vanishes before the controller reads it for the first time."""
    waits = running.controllers[1000]._controller.term.waits
    gone, there = running.kernel.runtime("a").future(), running.kernel.runtime("b").future()
    waits.until_led([TopicPartition("gone", 0)], gone)
    waits.until_led([TopicPartition("t", 7)], there)
    running.create_topic("t", (0,))
    running.settle()
    assert (gone.is_set(), there.is_set()) == (True, False)
