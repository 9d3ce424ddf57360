"""Brokers that die, return, bounce and shut down; conflicts with other writers."""

from __future__ import annotations

import pytest

from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import BrokerEpoch, NodeId, TopicPartition
from highwater_core.messages import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)

P0 = TopicPartition("t", 0)


def epoch_of(cluster, broker_id):
    return BrokerEpoch(cluster.zookeeper.dump()[znodes.broker_path(NodeId(broker_id))][1].czxid)


def shut_down(cluster, broker_id, broker_epoch=None):
    if broker_epoch is None:
        broker_epoch = epoch_of(cluster, broker_id)
    return cluster.ask(ControlledShutdownRequest(NodeId(broker_id), broker_epoch))


def test_a_dead_leader_is_replaced_in_one_request_per_broker(running):
    running.create_topic("t", (0, 1, 2), (0, 2, 1), (1, 0, 2))
    before = len(running.brokers[2].heard(LeaderAndIsrRequest))
    running.brokers[0].die()
    running.settle()
    first = running.brokers[2].heard(LeaderAndIsrRequest)[before]
    assert [(str(i.topic_partition), i.leader, i.isr) for i in first.partitions] == [
        ("t-0", 1, (1, 2)),
        ("t-1", 2, (2, 1)),
    ]
    # The partition that it only followed: out of the ISR, in a request of its own.
    second = running.brokers[2].heard(LeaderAndIsrRequest)[before + 1]
    assert [(str(i.topic_partition), i.leader, i.isr) for i in second.partitions] == [
        ("t-2", 1, (1, 2))
    ]
    assert all(running.state("t", number).leader_epoch == 1 for number in range(3))


def test_leader_and_isr_comes_before_the_metadata_that_it_causes(running):
    running.create_topic("t", (0, 1, 2))
    running.settle()
    count = len(running.brokers[2].told)
    running.brokers[0].die()
    running.settle()
    kinds = [type(request) for request in running.brokers[2].told[count:]]
    assert kinds == [LeaderAndIsrRequest, UpdateMetadataRequest]
    assert [b.broker_id for b in running.brokers[2].told[-1].live_brokers] == [1, 2]


def test_the_last_isr_members_death_leaves_no_leader_until_it_returns(running):
    running.create_topic("t", (0,))
    running.create_topic("u", (0, 1))
    running.brokers[1].die()
    running.settle()
    running.brokers[0].die()
    running.settle()
    assert (running.state("t").leader, running.state("t").isr) == (-1, (0,))
    assert (running.state("u").leader, running.state("u").isr) == (-1, (0,))
    running.start_broker(1)
    running.settle()
    assert running.state("u").leader == -1  # not in sync, and unclean election is off
    running.start_broker(0)
    running.until(lambda: running.state("u").leader == 0, "the ISR member's return")
    running.settle()
    assert running.state("t").leader == 0
    assert running.state("t").leader_epoch == 2


@pytest.mark.parametrize(
    ("preset", "config"),
    [(Preset.V3, {}), (Preset.FENCED, {"unclean.leader.election.enable": "true"})],
)
def test_an_unclean_leader_is_elected_where_preset_or_topic_allow_it(cluster, preset, config):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.start_controller(preset=preset)
    cluster.until_failed_over()
    cluster.create_topic("u", (0, 1), config=config)
    cluster.brokers[1].die()
    cluster.settle()
    assert cluster.state("u").isr == (0,)
    cluster.start_broker(1)
    cluster.settle()
    cluster.brokers[0].die()
    cluster.until(lambda: cluster.state("u").leader == 1, "the unclean election")
    cluster.settle()
    assert cluster.state("u").isr == (1,)
    assert cluster.events(EventKind.LEADER_ELECTED)[-1].detail["unclean"]


def another_shrinks_first(cluster):
    """Have leader 0 write ISR [0, 2] between the controller's next read and its write under v3;
    return the state's path."""
    for broker_id in range(3):
        cluster.start_broker(broker_id)
    cluster.start_controller(preset=Preset.V3)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1, 2))
    path = znodes.partition_state_path(P0)
    shrunk = b'{"version":1,"leader":0,"leader_epoch":0,"controller_epoch":1,"isr":[0,2]}'
    cluster.before_multi(path, lambda: cluster.put(path, shrunk))
    return path


def test_an_election_that_finds_another_version_starts_over_from_the_read(cluster):
    path = another_shrinks_first(cluster)
    cluster.brokers[0].die()
    cluster.until(lambda: cluster.events(EventKind.LEADER_ELECTED)[1:], "the election")
    assert cluster.events(EventKind.WRITE_CONFLICTED)[0].detail["path"] == path
    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
    assert cluster.state("t").leader_epoch == 1


def test_an_isr_that_shrinks_is_decided_anew_on_the_version_that_another_wrote(cluster):
    path = another_shrinks_first(cluster)
    cluster.brokers[2].die()
    cluster.until(lambda: cluster.events(EventKind.ISR_WRITTEN), "the shrink")
    assert cluster.events(EventKind.WRITE_CONFLICTED)[0].detail["path"] == path
    assert cluster.state("t").isr == (0,)
    assert [event.detail["isr"] for event in cluster.events(EventKind.ISR_WRITTEN)] == [[0]]


def test_a_bounced_broker_fails_and_starts_again(running):
    running.create_topic("t", (0, 1, 2))
    old = running.brokers[0]
    # Both happen before the controller hears of either: it is busy reading meanwhile.
    old.die()
    new = running.start_broker(0)
    running.settle(1_000)
    assert running.state("t").leader == 1
    assert [r.is_init for r in new.heard(LeaderAndIsrRequest)][:1] == [True]
    assert {r.broker_epoch for r in new.told} == {epoch_of(running, 0)}


def test_a_broker_that_registers_anew_gets_a_full_metadata_update(running):
    """It may have missed that a topic was deleted."""
    running.create_topic("t", (0, 1))
    running.create_topic("u", (1,))
    earlier = len(running.brokers[0].heard(UpdateMetadataRequest))
    running.brokers[2].die()
    running.settle()
    returned = running.start_broker(2)
    running.settle()
    first, *later = returned.heard(UpdateMetadataRequest)
    assert first.is_full
    assert [str(item.topic_partition) for item in first.partitions] == ["t-0", "u-0"]
    assert not any(request.is_full for request in later)
    to_another = running.brokers[0].heard(UpdateMetadataRequest)[earlier:]
    assert to_another
    assert not any(request.is_full for request in to_another)


def test_controlled_shutdown_moves_leaders_and_stops_followers(running):
    running.create_topic("t", (0, 1, 2), (1, 0, 2))
    running.create_topic("alone", (0,))
    response = shut_down(running, 0)
    assert (response.error, response.remaining) == (ErrorCode.NONE, ())
    running.settle()
    assert (running.state("t", 0).leader, running.state("t", 0).isr) == (1, (1, 2))
    assert (running.state("t", 1).leader, running.state("t", 1).isr) == (1, (1, 2))
    assert running.state("alone").leader == 0
    (stop,) = running.brokers[0].heard(StopReplicaRequest)
    assert [(str(i.topic_partition), i.delete_partition) for i in stop.partitions] == [
        ("t-1", False)
    ]
    assert running.brokers[0].leaderships()[P0].leader == 1


def test_controlled_shutdown_answers_partitions_without_another_leader(running):
    running.create_topic("t", (0, 1))
    running.brokers[1].die()
    running.settle()
    response = shut_down(running, 0)
    assert (response.error, response.remaining) == (ErrorCode.NONE, (P0,))
    running.start_broker(1)
    running.settle()
    assert shut_down(running, 0).remaining == (P0,)  # returned, but not in sync


def test_controlled_shutdown_is_refused_to_strangers_and_earlier_registrations(running):
    assert shut_down(running, 7, BrokerEpoch(1)).error is ErrorCode.BROKER_NOT_AVAILABLE
    assert shut_down(running, 0, BrokerEpoch(1)).error is ErrorCode.STALE_BROKER_EPOCH
    assert (
        running.ask(ControlledShutdownRequest(NodeId(0), epoch_of(running, 0))).error
        is ErrorCode.NONE
    )


def test_a_command_without_answer_raises_an_alert_and_later_ones_wait(running):
    mute = running.brokers[2]
    running.create_topic("warm", (2,))
    mute.is_mute = True
    running.write_topic("t", (2,))
    running.until(lambda: mute.heard(LeaderAndIsrRequest)[2:], "the command")
    told = len(mute.told)
    running.write_topic("u", (2,))
    running.until(lambda: running.events(EventKind.COMMAND_TIMED_OUT), "the alert", limit_ms=11_000)
    alert = running.events(EventKind.COMMAND_TIMED_OUT)[0]
    assert (alert.detail["broker"], alert.detail["request"]) == (2, "LeaderAndIsrRequest")
    assert len(mute.told) == told
    (unanswered,) = running.active().snapshot().unanswered_commands
    assert (unanswered.broker_id, unanswered.request) == (2, "LeaderAndIsrRequest")
    assert unanswered.waiting_ms >= 10_000
    mute.is_mute = False
    running.until(lambda: TopicPartition("u", 0) in mute.leaderships(), "the command that waited")
    again = [
        [str(i.topic_partition) for i in r.partitions] for r in mute.heard(LeaderAndIsrRequest)
    ]
    assert again[-3:] == [["t-0"], ["t-0"], ["u-0"]]
    running.settle()
    assert running.active().snapshot().unanswered_commands == ()
    assert dict(running.active().snapshot().counters)["commands_timed_out"] == 1
