"""AlterPartition as a table, and V3's ISR change notifications."""

from __future__ import annotations

import pytest

from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    LeaderEpoch,
    NodeId,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from highwater_core.messages import (
    AlterPartitionItem,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    IsrMember,
    UpdateMetadataRequest,
)
from highwater_core.topic_znode import decode_topic

P0 = TopicPartition("t", 0)
PATH = znodes.partition_state_path(P0)


def broker_epoch(cluster, broker_id):
    return BrokerEpoch(cluster.zookeeper.dump()[znodes.broker_path(NodeId(broker_id))][1].czxid)


def topic_id(cluster):
    return decode_topic(cluster.data(znodes.topic_path("t")), "t")[1]


def alter(cluster, isr, *, sender=0, epoch=None, members=None, **changes):
    """Ask as broker `sender`; changes replace fields of a request that would be right."""
    fields = {
        "topic_partition": P0,
        "leader_epoch": LeaderEpoch(0),
        "new_isr": members or tuple(IsrMember(NodeId(b), broker_epoch(cluster, b)) for b in isr),
        "partition_epoch": PartitionEpoch(cluster.zookeeper.dump()[PATH][1].node_version),
        "topic_id": topic_id(cluster),
    } | changes
    return cluster.ask(
        AlterPartitionRequest(
            NodeId(sender),
            broker_epoch(cluster, sender) if epoch is None else epoch,
            (AlterPartitionItem(**fields),),
        )
    )


@pytest.fixture
def led(running):
    """Topic t on brokers 0, 1, 2; broker 0 leads; the ISR has been shrunk to 0 and 1."""
    running.create_topic("t", (0, 1, 2))
    response = alter(running, (0, 1))
    assert response.results[0].error is ErrorCode.NONE
    return running


def test_a_shrunk_isr_is_written_and_sent_to_all(led):
    state = led.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (0, 0, (0, 1))
    led.settle()
    for broker in led.brokers.values():
        item = broker.heard(UpdateMetadataRequest)[-1].partitions[0]
        assert (item.isr, item.partition_epoch) == ((0, 1), 1)
    assert led.events(EventKind.ISR_WRITTEN)[-1].detail["partition_epoch"] == 1


def test_a_follower_that_caught_up_joins(led):
    (result,) = alter(led, (0, 1, 2)).results
    assert (result.error, result.leader, result.leader_epoch) == (ErrorCode.NONE, 0, 0)
    assert (result.isr, result.partition_epoch) == ((0, 1, 2), 2)


@pytest.mark.parametrize(
    ("isr", "changes", "error"),
    [
        ((0, 1, 2), {"leader_epoch": LeaderEpoch(1)}, ErrorCode.NOT_CONTROLLER),
        ((0, 1, 2), {"partition_epoch": PartitionEpoch(2)}, ErrorCode.NOT_CONTROLLER),
        ((0, 1, 2), {"leader_epoch": LeaderEpoch(-1)}, ErrorCode.FENCED_LEADER_EPOCH),
        ((0, 1, 2), {"partition_epoch": PartitionEpoch(0)}, ErrorCode.INVALID_UPDATE_VERSION),
        ((0, 1), {"partition_epoch": PartitionEpoch(0)}, ErrorCode.NONE),  # a repeat
        ((0, 1, 2), {"topic_id": TopicId("e" * 32)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ((0, 1, 2), {"topic_partition": TopicPartition("t", 9)},
         ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {}, ErrorCode.INVALID_REQUEST),  # without the leader
        ((0, 1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((0, 1, 2), {"sender": 1}, ErrorCode.INVALID_REQUEST),  # not the leader
        ((), {"members": (IsrMember(NodeId(0)), IsrMember(NodeId(8)))}, ErrorCode.INVALID_REQUEST),
        ((), {"members": (IsrMember(NodeId(0)), IsrMember(NodeId(2), BrokerEpoch(1)))},
         ErrorCode.INELIGIBLE_REPLICA),
        ((), {"members": (IsrMember(NodeId(0)), IsrMember(NodeId(2), NO_BROKER_EPOCH))},
         ErrorCode.INELIGIBLE_REPLICA),
    ],
)  # fmt: skip
def test_the_proposals_that_may_be_written(led, isr, changes, error):
    before = led.state("t")
    (result,) = alter(led, isr, **changes).results
    assert result.error is error
    if error is not ErrorCode.NONE:
        assert led.state("t") == before
        assert led.events(EventKind.REQUEST_REFUSED)[-1].detail["error"] == error.name


def test_a_new_controller_learns_a_topics_lost_id_from_its_leader(led):
    """KAFKA-14190. Found: no ISR changed any more, since leaders know the id."""
    known = topic_id(led)
    led.kill_controller(1000)
    led.write_topic("t", (0, 1, 2))
    led.start_controller(1000)
    led.until_failed_over()
    assert topic_id(led) == ""
    (result,) = alter(
        led, (0, 1, 2), topic_id=known, leader_epoch=led.state("t").leader_epoch
    ).results
    assert (result.error, result.isr) == (ErrorCode.NONE, (0, 1, 2))
    led.settle()
    assert topic_id(led) == known
    for broker in led.brokers.values():
        assert broker.heard(UpdateMetadataRequest)[-1].partitions[0].topic_id == known


def test_an_id_of_another_topic_is_not_learnt(led):
    led.create_topic("u", (0, 1))
    other = decode_topic(led.data(znodes.topic_path("u")), "u").topic_id
    led.kill_controller(1000)
    led.write_topic("t", (0, 1, 2))
    led.start_controller(1000)
    led.until_failed_over()
    alter(led, (0, 1, 2), topic_id=other, leader_epoch=led.state("t").leader_epoch)
    assert topic_id(led) == ""


def test_a_request_of_an_earlier_registration_is_refused_whole(led):
    response = alter(led, (0, 1, 2), epoch=BrokerEpoch(1))
    assert (response.error, response.results) == (ErrorCode.STALE_BROKER_EPOCH, ())


def test_dead_brokers_and_those_that_shut_down_may_not_join(led):
    epoch = broker_epoch(led, 2)
    led.ask(ControlledShutdownRequest(NodeId(2), epoch))
    assert alter(led, (0, 1, 2)).results[0].error is ErrorCode.INELIGIBLE_REPLICA
    led.brokers[2].die()
    led.settle()
    members = (IsrMember(NodeId(0)), IsrMember(NodeId(1)), IsrMember(NodeId(2), epoch))
    assert alter(led, (), members=members).results[0].error is ErrorCode.INELIGIBLE_REPLICA


def test_a_conflicting_write_is_read_and_answered_as_such(led):
    other = b'{"version":1,"leader":0,"leader_epoch":0,"controller_epoch":1,"isr":[0]}'
    led.before_multi(PATH, lambda: led.put(PATH, other))
    (result,) = alter(led, (0, 1, 2)).results
    assert result.error is ErrorCode.INVALID_UPDATE_VERSION
    assert led.events(EventKind.WRITE_CONFLICTED)
    assert alter(led, (0, 1, 2)).results[0].error is ErrorCode.NONE


def test_a_write_whose_reply_was_lost_is_recognised(led):
    answers = []
    request = AlterPartitionRequest(
        NodeId(0),
        broker_epoch(led, 0),
        (
            AlterPartitionItem(
                P0,
                LeaderEpoch(0),
                tuple(IsrMember(NodeId(b), broker_epoch(led, b)) for b in (0, 1, 2)),
                PartitionEpoch(1),
                topic_id(led),
            ),
        ),
    )
    led.ask_later(request, answers)
    led.until(lambda: led.state("t").isr == (0, 1, 2), "the write")
    assert not answers
    for session_id in led.zookeeper.session_ids("controller-1000"):
        led.zookeeper.lose_connection(session_id)
    led.until(lambda: answers, "the answer")
    (result,) = answers[0].results
    assert (result.error, result.partition_epoch) == (ErrorCode.NONE, 2)
    assert not led.events(EventKind.WRITE_CONFLICTED)


def test_under_v3_a_leaders_own_write_is_spread_by_its_notification(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.start_controller(preset=Preset.V3)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    cluster.write(PATH, b'{"version":1,"leader":0,"leader_epoch":0,"controller_epoch":1,"isr":[0]}')
    listed = znodes.PartitionsZnode(
        [znodes.PartitionName("t", 0), znodes.PartitionName("unknown", 3)]
    )
    base = f"{znodes.ISR_CHANGE_NOTIFICATION}/{znodes.ISR_CHANGE_PREFIX}"
    cluster.write(f"{base}0000000000", znodes.encode(listed))
    cluster.write(f"{base}0000000001", b"no json")
    cluster.settle()
    for broker in cluster.brokers.values():
        told = [i for r in broker.heard(UpdateMetadataRequest) for i in r.partitions]
        assert (told[-1].isr, told[-1].partition_epoch) == ((0,), 1)
    assert not [p for p in cluster.zookeeper.dump() if p.startswith(base)]
    assert cluster.events(EventKind.BAD_INPUT_MET)[0].detail["where"] == f"{base}0000000001"
    assert cluster.active() is not None
