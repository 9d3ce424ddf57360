"""Election, sessions and resignation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NO_CONTROLLER_EPOCH, BrokerEpoch, NodeId, TopicPartition
from highwater_core.messages import (
    AlterPartitionRequest,
    ControlledShutdownRequest,
    CreateTopicsRequest,
    InspectRequest,
    LeaderAndIsrRequest,
    NewTopic,
    SetFailPointRequest,
    UpdateMetadataRequest,
)
from tests.support.presets import each_preset


def epochs(cluster):
    return [e.controller_epoch for e in cluster.events(EventKind.CONTROLLER_ELECTED)]


def test_one_of_two_controllers_is_active_and_the_other_takes_over_with_the_next_epoch(cluster):
    cluster.start_controller(1000)
    cluster.start_controller(1001)
    cluster.until_failed_over()
    first = cluster.active().snapshot().node_id
    other = 2001 - first
    assert not cluster.controllers[other].snapshot().active_controller
    assert cluster.controllers[other].snapshot().controller_id == first
    cluster.kill_controller(first)
    cluster.until(
        lambda: cluster.controllers[other].snapshot().active_controller, "the other's election"
    )
    assert epochs(cluster) == [1, 2]
    assert cluster.data(znodes.CONTROLLER_EPOCH) == b"2"
    assert f'"brokerid":{other}'.encode() in cluster.data(znodes.CONTROLLER)


def test_a_controller_publishes_its_endpoint_for_as_long_as_its_session(cluster):
    cluster.start_controller(1001)
    cluster.until_failed_over()
    path = znodes.controller_endpoint_path(NodeId(1001))
    znode = znodes.decode(znodes.ControllerEndpointZnode, cluster.data(path), path)
    assert (znode.host, znode.port) == ("controller-1001", 9095)
    cluster.kill_controller(1001)
    cluster.settle()
    assert cluster.data(path) is None


def test_session_loss_ends_the_term_at_once_and_the_next_session_stands_again(running):
    running.brokers[0].is_mute = True
    answers = []
    topic = NewTopic("t", -1, -1, ((0, 1, 2),))
    running.ask_later(CreateTopicsRequest((topic,), timeout_ms=30_000), answers)
    running.until(lambda: running.brokers[0].heard(LeaderAndIsrRequest)[1:], "the command")
    running.settle(5)  # the request is carried out, and waits for its topic
    running.expire_session()
    running.until(lambda: running.events(EventKind.CONTROLLER_RESIGNED), "the resignation")
    resigned = running.events(EventKind.CONTROLLER_RESIGNED)[0]
    assert resigned.controller_epoch == 1
    running.until(lambda: epochs(running) == [1, 2], "the next term")
    running.until(lambda: answers, "the client's answer", 1_000)
    # The outcome is unknown: it was written, but nobody heard from the leader in that term.
    (result,) = answers[0].results
    assert result.error is ErrorCode.REQUEST_TIMED_OUT
    names = [task.name for task in running.active().snapshot().tasks]
    assert names.count("controller-event-thread") == 1


def test_a_lost_reply_to_the_winning_multi_is_recognised(cluster):
    cluster.start_controller()
    cluster.until(lambda: cluster.data(znodes.CONTROLLER) is not None, "the server's side")
    assert not cluster.events(EventKind.CONTROLLER_ELECTED)  # its answer is still under way
    for session_id in cluster.zookeeper.session_ids("controller-1000"):
        cluster.zookeeper.lose_connection(session_id)
    cluster.until_failed_over()
    assert epochs(cluster) == [1]
    assert cluster.data(znodes.CONTROLLER_EPOCH) == b"1"


def test_deleting_the_controller_znode_makes_for_a_new_election(running):
    running.delete(znodes.CONTROLLER)
    running.until(lambda: epochs(running) == [1, 2], "the new election")
    running.settle()
    assert running.events(EventKind.CONTROLLER_RESIGNED)[0].detail["reason"]
    assert running.active() is not None


def test_a_raised_controller_epoch_fences_every_write_and_ends_the_term(running):
    running.create_topic("t", (0, 1, 2))
    running.write(znodes.CONTROLLER_EPOCH, b"7")
    running.brokers[0].die()
    running.until(lambda: 8 in epochs(running), "the resignation and the next term")
    running.until(lambda: running.state("t").leader == 1, "the election by the next term")
    assert running.state("t").controller_epoch == 8


def test_without_the_multi_a_newer_controllers_state_znode_ends_the_term(cluster):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.start_controller(preset=Preset.V3)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    path = znodes.partition_state_path(TopicPartition("t", 0))
    cluster.write(znodes.CONTROLLER_EPOCH, b"9")
    cluster.write(path, b'{"version":1,"leader":0,"leader_epoch":5,"controller_epoch":9,"isr":[0]}')
    cluster.brokers[0].die()
    cluster.until(lambda: cluster.events(EventKind.CONTROLLER_RESIGNED), "the resignation")
    assert "newer controller" in cluster.events(EventKind.CONTROLLER_RESIGNED)[0].detail["reason"]


@pytest.mark.parametrize("preset", each_preset())
def test_a_state_znode_of_a_controller_that_never_was_is_left_out_until_repaired(cluster, preset):
    for broker_id in range(2):
        cluster.start_broker(broker_id)
    cluster.start_controller(preset=preset)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    path = znodes.partition_state_path(TopicPartition("t", 0))
    good = cluster.data(path)
    cluster.write(path, b'{"version":1,"leader":0,"leader_epoch":5,"controller_epoch":9,"isr":[0]}')
    cluster.brokers[0].die()
    cluster.until(lambda: cluster.events(EventKind.BAD_INPUT_MET), "the report")
    cluster.settle()
    assert cluster.active() is not None
    assert cluster.events(EventKind.CONTROLLER_RESIGNED) == []
    cluster.write(path, good)
    cluster.until(lambda: cluster.state("t").leader == 1, "the election after the repair")


def test_a_malformed_controller_epoch_is_reported_and_waited_for(cluster):
    cluster.write(znodes.CONTROLLER_EPOCH, b"seven")
    cluster.start_controller()
    cluster.until(lambda: cluster.events(EventKind.BAD_INPUT_MET), "the report")
    assert cluster.active() is None
    cluster.write(znodes.CONTROLLER_EPOCH, b"7")
    cluster.until_failed_over()
    assert epochs(cluster) == [8]


def test_an_epoch_that_another_controller_took_meanwhile_is_not_taken_again(cluster):
    cluster.write(znodes.CONTROLLER_EPOCH, b"5")

    async def another_wins_and_is_gone():
        await cluster.put(znodes.CONTROLLER_EPOCH, b"6")

    cluster.before_multi(znodes.CONTROLLER_EPOCH, another_wins_and_is_gone)
    cluster.start_controller()
    cluster.until_failed_over()
    assert epochs(cluster) == [7]


def test_an_epoch_that_another_wrote_is_not_taken_for_ones_own(running):
    """/controller and the epoch of one election are of one transaction."""
    running.write(znodes.CONTROLLER_EPOCH, b"6")
    running.ask(CreateTopicsRequest((NewTopic("t", 1, 1),)))
    running.until_failed_over()
    assert epochs(running) == [1, 7]


def test_requests_to_a_controller_that_is_not_active_are_refused(cluster):
    cluster.start_controller(1000)
    cluster.until_failed_over()
    cluster.start_controller(1001)
    cluster.settle()
    asked = CreateTopicsRequest((NewTopic("t", 1, 1),))
    assert cluster.ask(asked, 1001).error is ErrorCode.NOT_CONTROLLER
    alter = AlterPartitionRequest(NodeId(0), znodes.NO_BROKER_EPOCH, ())
    assert cluster.ask(alter, 1001).error is ErrorCode.NOT_CONTROLLER


def test_a_controller_refuses_a_brokers_commands_and_unknown_fail_points(running):
    command = UpdateMetadataRequest(NodeId(1001), 1, -1, (), ())
    assert running.ask(command).error is ErrorCode.INVALID_REQUEST
    assert running.ask(SetFailPointRequest("none", "off")).error is ErrorCode.INVALID_REQUEST
    assert running.active() is not None


def test_a_snapshot_has_the_active_controller_and_running_tasks(running):
    snapshot = running.ask(InspectRequest())
    assert snapshot.active_controller
    assert snapshot.live_brokers == (0, 1, 2)
    assert snapshot.controller_id == 1000
    names = [task.name for task in snapshot.tasks]
    for broker_id in range(3):
        assert f"Controller-1000-to-broker-{broker_id}-send-thread" in names


def test_a_stopped_controller_leaves_its_znode_to_the_next_at_once(cluster):
    cluster.start_controller(1000)
    cluster.until_failed_over()
    cluster.start_controller(1001)
    cluster.settle()
    cluster.controllers[1000].request_stop()
    cluster.until(lambda: epochs(cluster) == [1, 2], "the other's election", limit_ms=1_000)
    assert cluster.events(EventKind.NODE_STOPPED)
    assert not cluster.events(EventKind.SESSION_LOST)


@pytest.mark.parametrize("request_type", [AlterPartitionRequest, ControlledShutdownRequest])
def test_a_broker_that_obeys_a_later_controller_is_refused(running, request_type):
    """Found: it was answered from memory, for as long as ZooKeeper was out of reach."""
    running.create_topic("t", (0, 1, 2))
    broker_epoch = BrokerEpoch(running.zookeeper.dump()[znodes.broker_path(0)][1].czxid)
    request = ControlledShutdownRequest(NodeId(0), broker_epoch)
    if request_type is AlterPartitionRequest:
        request = AlterPartitionRequest(NodeId(0), broker_epoch, ())
    known = running.controllers[1000].snapshot().controller_epoch
    assert running.ask(replace(request, controller_epoch=known + 1)).error is (
        ErrorCode.NOT_CONTROLLER
    )
    assert running.state("t").leader == 0
    for epoch in (NO_CONTROLLER_EPOCH, known):
        asked = replace(request, controller_epoch=epoch)
        assert running.ask(asked).error is ErrorCode.NONE
