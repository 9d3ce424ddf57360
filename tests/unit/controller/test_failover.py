"""A new controller's first commands: their order, and the init command."""

from __future__ import annotations

import pytest

from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.messages import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from tests.support.presets import CONTROLLED

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def inits(broker):
    return [request for request in broker.heard(LeaderAndIsrRequest) if request.is_init]


def test_failover_sends_metadata_then_init_then_elections(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.write_topic("t", (0, 1), (2, 1))
    path = znodes.partition_state_path(P1)
    cluster.write(
        path, b'{"version":1,"leader":2,"leader_epoch":4,"controller_epoch":0,"isr":[2,1]}'
    )
    cluster.start_controller()
    cluster.until_failed_over()
    told = cluster.brokers[1].told
    assert isinstance(told[0], UpdateMetadataRequest)
    assert [item.topic_partition for item in told[0].partitions] == [P1]
    assert [b.broker_id for b in told[0].live_brokers] == [0, 1]
    # The init command lists partitions with a leader; the dead leader's is as it was found.
    init = told[1]
    assert init.is_init
    assert [(i.topic_partition, i.leader, i.leader_epoch) for i in init.partitions] == [(P1, 2, 4)]
    last = cluster.brokers[1].leaderships()
    assert (last[P1].leader, last[P1].leader_epoch, last[P1].isr) == (1, 5, (1,))
    assert (last[P0].leader, last[P0].leader_epoch, last[P0].is_new) == (0, 0, True)
    (done,) = cluster.events(EventKind.FAILOVER_COMPLETED)
    assert (done.detail["brokers"], done.detail["partitions"]) == ([0, 1], 2)


def test_failover_removes_the_dead_from_the_isr_also_where_the_leader_lives(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.write_topic("t", (0, 2, 1))
    written = b'{"version":1,"leader":0,"leader_epoch":4,"controller_epoch":0,"isr":[0,2,1]}'
    cluster.write(znodes.partition_state_path(P0), written)
    cluster.start_controller()
    cluster.until_failed_over()
    found = cluster.state("t")
    assert (found.leader, found.leader_epoch, found.isr) == (0, 5, (0, 1))
    cluster.settle()
    for broker_id in range(2):
        told = cluster.brokers[broker_id].leaderships()[P0]
        assert (told.leader, told.leader_epoch, told.isr) == (0, 5, (0, 1))


def test_without_the_toggle_the_init_command_comes_before_any_metadata(cluster):
    cluster.start_broker(0)
    cluster.start_controller(toggles={"update_metadata_first": False})
    cluster.until_failed_over()
    told = cluster.brokers[0].told
    assert isinstance(told[0], LeaderAndIsrRequest)
    assert told[0].is_init
    assert isinstance(told[1], UpdateMetadataRequest)


def test_every_broker_gets_one_init_per_controller_epoch_even_an_empty_one(running):
    for broker in running.brokers.values():
        assert [init.partitions for init in inits(broker)] == [()]
    running.create_topic("t", (0, 1))
    running.create_topic("u", (2, 1))
    running.settle()
    assert all(len(inits(broker)) == 1 for broker in running.brokers.values())
    running.expire_session()
    running.until(lambda: len(inits(running.brokers[1])) == 2, "the next term's init")
    running.settle()
    listed = {
        broker_id: [str(item.topic_partition) for item in inits(broker)[1].partitions]
        for broker_id, broker in running.brokers.items()
    }
    assert listed == {0: ["t-0"], 1: ["t-0", "u-0"], 2: ["u-0"]}
    assert not inits(running.brokers[1])[1].partitions[0].is_new


def test_init_is_the_first_leader_and_isr_of_its_channel(running):
    running.create_topic("t", (0, 1, 2))
    for broker in running.brokers.values():
        flags = [request.is_init for request in broker.heard(LeaderAndIsrRequest)]
        assert flags[0]
        assert not any(flags[1:])


def test_init_is_withheld_from_all_while_a_topic_is_unreadable(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.write_topic("good", (0, 1))
    cluster.write(znodes.topic_path("bad"), b"{not json")
    cluster.start_controller()
    cluster.until_failed_over()
    assert cluster.state("good").leader == 0
    for broker in cluster.brokers.values():
        assert broker.leaderships()
        assert not inits(broker)
    assert cluster.events(EventKind.BAD_INPUT_MET)[0].detail["where"] == "/brokers/topics/bad"
    # Once repaired, the topic is taken up; the init command stays away for this term.
    cluster.write_topic("bad", (1, 0))
    cluster.until(lambda: TopicPartition("bad", 0) in cluster.brokers[0].leaderships(), "the topic")
    cluster.settle()
    assert cluster.state("bad").leader == 1
    assert not inits(cluster.brokers[0])


def test_init_is_withheld_only_from_hosts_of_an_unreadable_partition(cluster):
    for broker_id in range(3):
        cluster.start_broker(broker_id)
    cluster.write_topic("t", (0, 1), (2,))
    good = b'{"version":1,"leader":0,"leader_epoch":3,"controller_epoch":0,"isr":[0,1]}'
    cluster.write(znodes.partition_state_path(P0), b'{"leader":"zero"}')
    cluster.start_controller()
    cluster.until_failed_over()
    assert [bool(inits(cluster.brokers[b])) for b in range(3)] == [False, False, True]
    assert cluster.data(znodes.partition_state_path(P0)) == b'{"leader":"zero"}'
    cluster.write(znodes.partition_state_path(P0), good)
    cluster.until(lambda: P0 in cluster.brokers[1].leaderships(), "the repaired partition")
    assert cluster.brokers[1].leaderships()[P0].leader_epoch == 3
    cluster.settle()
    cluster.brokers[0].die()
    cluster.until(lambda: cluster.state("t").leader == 1, "an election in the repaired partition")


def full_updates(broker):
    """Whether each UpdateMetadata that the broker got was full."""
    return [request.is_full for request in broker.heard(UpdateMetadataRequest)]


def test_only_the_first_metadata_of_a_term_is_full(running):
    running.create_topic("t", (0, 1))
    running.settle()
    for broker in running.brokers.values():
        assert full_updates(broker)[0]
        assert not any(full_updates(broker)[1:])
    earlier = len(full_updates(running.brokers[2]))
    running.expire_session()
    running.until_failed_over()
    running.settle()
    in_new_term = running.brokers[2].heard(UpdateMetadataRequest)[earlier:]
    assert [request.is_full for request in in_new_term[:1]] == [True]
    assert [item.topic_partition for item in in_new_term[0].partitions] == [P0]
    assert not any(request.is_full for request in in_new_term[1:])


@pytest.mark.parametrize("path", [znodes.topic_path("bad"), znodes.partition_state_path(P0)])
def test_metadata_is_not_full_while_something_cannot_be_listed(cluster, path):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.write_topic("t", (0, 1), (1, 0))
    cluster.write(path, b"{not json")
    cluster.start_controller()
    cluster.until_failed_over()
    for broker in cluster.brokers.values():
        assert full_updates(broker)
        assert not any(full_updates(broker))


def test_an_unreadable_partition_whose_leader_died_is_elected_once_repaired(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    good = cluster.data(znodes.partition_state_path(P0))
    cluster.write(znodes.partition_state_path(P0), b"")
    cluster.brokers[0].die()
    cluster.until(lambda: cluster.events(EventKind.BAD_INPUT_MET), "the report")
    cluster.settle()
    assert cluster.active() is not None
    cluster.write(znodes.partition_state_path(P0), good)
    cluster.until(lambda: cluster.state("t").leader == 1, "the election after the repair")


def test_a_malformed_broker_znode_leaves_that_broker_out_until_it_is_repaired(cluster):
    cluster.start_broker(0)
    cluster.write(f"{znodes.BROKER_IDS}/5", b"[]")
    cluster.write(f"{znodes.BROKER_IDS}/five", b"{}")
    cluster.start_controller()
    cluster.until_failed_over()
    assert cluster.active().snapshot().live_brokers == (0,)
    assert len(cluster.events(EventKind.BAD_INPUT_MET)) >= 2
    broker = cluster.brokers[0]
    cluster.write(f"{znodes.BROKER_IDS}/5", znodes.encode_broker(broker.endpoints, 0))
    cluster.until(lambda: cluster.active().snapshot().live_brokers == (0, 5), "the repair")


def test_leftover_isr_notifications_are_dropped(cluster):
    cluster.write(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_0000000000", b"{}")
    cluster.start_controller()
    cluster.until_failed_over()
    assert cluster.data(f"{znodes.ISR_CHANGE_NOTIFICATION}/isr_change_0000000000") is None


@pytest.mark.parametrize("preset", CONTROLLED)
def test_the_preset_decides_which_fences_the_commands_carry(cluster, preset):
    cluster.start_broker(0)
    cluster.start_controller(preset=preset)
    cluster.until_failed_over()
    cluster.create_topic("t", (0,))
    cluster.delete_topic("t")
    cluster.settle()
    is_fenced = preset is Preset.FENCED
    broker = cluster.brokers[0]
    for request in broker.told:
        assert (request.broker_epoch >= 0) == is_fenced
    item = broker.heard(LeaderAndIsrRequest)[-1].partitions[0]
    assert bool(item.topic_id) == is_fenced
    stop = broker.heard(StopReplicaRequest)[-1].partitions[0]
    assert stop.leader_epoch == (-2 if is_fenced else -1)
