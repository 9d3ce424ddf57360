"""Replicas that their brokers' disks refuse are offline until accepted again (KIP-112)."""

from __future__ import annotations

import pytest

from highwater_controller.logic.disk_answers import DiskAnswer, read_answer
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import (
    AlterPartitionItem,
    AlterPartitionRequest,
    IsrMember,
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
)
from tests.support.presets import CONTROLLED

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
REFUSED = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("errors", "before", "told"),
    [
        ([(P0, ErrorCode.NONE)], set(), DiskAnswer((), ())),
        ([(P0, REFUSED), (P1, ErrorCode.NONE)], set(), DiskAnswer((P0,), ())),
        ([(P0, REFUSED), (P1, ErrorCode.NONE)], {P0, P1}, DiskAnswer((P0,), (P1,))),
        ([(P0, ErrorCode.FENCED_LEADER_EPOCH)], {P0}, DiskAnswer((), ())),
        ([], {P0}, DiskAnswer((), ())),
    ],
)
def test_only_a_storage_error_refuses_and_only_success_accepts(errors, before, told):
    assert read_answer(errors, before) == told


def announce(cluster, content=b'{"version":1,"broker":0,"event":1}'):
    path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{znodes.LOG_DIR_EVENT_PREFIX}0000000000"
    cluster.write(path, content)
    cluster.settle()
    assert cluster.data(path) is None


def fail(cluster, *partitions):
    """Have broker 0 refuse the partitions, and announce it."""
    cluster.brokers[0].refused = dict.fromkeys(partitions, REFUSED)
    announce(cluster)


def led_by(cluster, number=0):
    state = cluster.state("t", number)
    return state.leader, tuple(state.isr)


@pytest.mark.parametrize("preset", CONTROLLED)
def test_a_refused_leader_is_replaced_and_leaves_the_isr(cluster, preset):
    for broker_id in range(3):
        cluster.start_broker(broker_id)
    cluster.start_controller(preset=preset)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1, 2), (0, 2, 1))
    cluster.settle()
    fail(cluster, P0)
    assert led_by(cluster) == (1, (1, 2))
    assert led_by(cluster, 1) == (0, (0, 2, 1)), "the other replica's disk is sound"
    told = cluster.brokers[1].heard(UpdateMetadataRequest)[-1].partitions
    assert [each.failed_replicas for each in told if each.topic_partition == P0] == [(0,)]


def test_a_refused_follower_leaves_the_isr(running):
    running.create_topic("t", (1, 0, 2))
    running.settle()
    fail(running, P0)
    assert led_by(running) == (1, (1, 2))


def test_a_refused_last_member_leads_no_more_and_stays_in_the_isr(running):
    running.create_topic("t", (0,))
    running.settle()
    fail(running, P0)
    assert led_by(running) == (-1, (0,))
    running.brokers[0].refused = {}
    announce(running)
    assert led_by(running) == (0, (0,))


def test_a_refused_replica_is_not_elected_until_it_is_accepted(running):
    running.create_topic("t", (1, 0))
    running.settle()
    fail(running, P0)
    running.brokers[1].die()
    running.settle()
    assert led_by(running) == (-1, (1,))


def test_a_partition_all_of_whose_replicas_are_refused_is_led_again_by_the_last_member(running):
    running.create_topic("t", (0, 1))
    running.settle()
    fail(running, P0)
    running.brokers[1].refused = {P0: REFUSED}
    announce(running, b'{"version":1,"broker":1,"event":1}')
    assert led_by(running) == (-1, (1,))
    running.brokers[0].refused = {}
    announce(running)
    assert led_by(running) == (-1, (1,)), "broker 0 is not in sync"
    running.brokers[1].refused = {}
    announce(running, b'{"version":1,"broker":1,"event":1}')
    assert led_by(running) == (1, (1,))


def test_a_replica_that_is_refused_as_it_is_created_leads_nothing(running):
    running.brokers[0].refused = {P0: REFUSED}
    running.create_topic("t", (0, 1, 2))
    running.settle()
    assert led_by(running) == (1, (1, 2))


def test_a_refused_replica_may_not_join_the_isr(running):
    running.create_topic("t", (1, 0, 2))
    running.settle()
    fail(running, P0)
    epochs = {
        broker: running.zookeeper.dump()[znodes.broker_path(NodeId(broker))][1].czxid
        for broker in range(3)
    }

    def join():
        state, stat = running.state("t"), running.zookeeper.dump()[znodes.partition_state_path(P0)]
        topic_id = running.brokers[1].leaderships()[P0].topic_id
        members = tuple(IsrMember(NodeId(each), epochs[each]) for each in (1, 2, 0))
        item = AlterPartitionItem(
            P0, state.leader_epoch, members, stat[1].node_version, topic_id=topic_id
        )
        return running.ask(AlterPartitionRequest(NodeId(1), epochs[1], (item,))).results[0].error

    assert join() is ErrorCode.INELIGIBLE_REPLICA
    running.brokers[0].refused = {}
    announce(running)
    assert join() is ErrorCode.NONE


def test_a_restart_clears_the_known_failures_of_a_brokers_disk(running):
    running.create_topic("t", (1, 0))
    running.settle()
    fail(running, P0)
    running.brokers[0].die()
    running.settle()
    running.start_broker(0)
    running.settle()
    assert running.brokers[0].leaderships()[P0].leader == 1
    told = running.brokers[1].heard(UpdateMetadataRequest)[-1]
    assert all(each.failed_replicas == () for each in told.partitions)


def test_a_new_controller_learns_from_answers_and_deletes_old_announcements(cluster):
    for broker_id in range(3):
        cluster.start_broker(broker_id)
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1, 2))
    cluster.settle()
    cluster.kill_controller(1000)
    path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{znodes.LOG_DIR_EVENT_PREFIX}0000000000"
    cluster.write(path, b'{"version":1,"broker":0,"event":1}')
    cluster.brokers[0].refused = {P0: REFUSED}
    cluster.start_controller(1001)
    cluster.until_failed_over()
    assert led_by(cluster) == (1, (1, 2))
    assert cluster.data(path) is None


def test_a_malformed_announcement_is_traced_and_deleted(running):
    announce(running, b"garbage")
    assert [each.detail["where"] for each in running.events(EventKind.BAD_INPUT_MET)] == [
        f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/{znodes.LOG_DIR_EVENT_PREFIX}0000000000"
    ]
    announce(running, b'{"version":1,"broker":77,"event":1}')


def test_an_announcement_has_all_replicas_of_the_broker_commanded(running):
    running.create_topic("t", (0, 1), (1, 2), (2, 0))
    running.settle()
    before = len(running.brokers[0].heard(LeaderAndIsrRequest))
    announce(running)
    commanded = running.brokers[0].heard(LeaderAndIsrRequest)[before:]
    assert [[str(each.topic_partition) for each in one.partitions] for one in commanded] == [
        ["t-0", "t-2"]
    ]
    assert led_by(running) == (0, (0, 1)), "nothing was wrong"
