"""A change of state that is invalid or impossible harms its partition or replica alone.

Source: Kafka's ZkReplicaStateMachine and ZkPartitionStateMachine;
docs/explanation/replication.md, "The controller".
"""

from __future__ import annotations

import pytest

from highwater_controller.context import Replica
from highwater_controller.logic import partition_states, replica_states
from highwater_controller.logic.partition_states import PartitionState
from highwater_controller.logic.replica_states import ReplicaState
from highwater_controller.partition_state_machine import elect_leaders_where_none, move_partitions
from highwater_controller.replica_state_machine import move_replicas
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import (
    CreateTopicsRequest,
    LeaderAndIsrRequest,
    NewTopic,
    StopReplicaRequest,
)

P, R = PartitionState, ReplicaState
P0 = TopicPartition("t", 0)
FOLLOWER = NodeId(1)


@pytest.fixture
def led(running):
    """A topic of a partition for each state that there is, led by broker 0."""
    running.create_topic("t", *[(0, 1, 2)] * len(R))
    return running


def context(cluster):
    return cluster.active()._controller.term.context


def commands_to(cluster):
    """Return which partitions' commands each broker has got so far, by kind and in order."""
    return [
        (broker.id, kind, item.topic_partition)
        for broker in cluster.brokers.values()
        for kind in (LeaderAndIsrRequest, StopReplicaRequest)
        for request in broker.heard(kind)
        for item in request.partitions
    ]


def not_made(cluster, kind):
    """Return the changes in the traces, in order, with the epoch of each."""
    return [
        (
            event.topic_partition,
            event.detail.get("replica"),
            event.detail["from_state"],
            event.detail["to_state"],
            event.controller_epoch,
        )
        for event in cluster.events(kind)
    ]


def lives(cluster):
    """Return whether the same controller carries out its next request."""
    request = CreateTopicsRequest((NewTopic("after", 1, 1),))
    (result,) = cluster.ask(request).results
    return (
        result.error is ErrorCode.NONE
        and not cluster.events(EventKind.CONTROLLER_RESIGNED)
        and len(cluster.events(EventKind.CONTROLLER_ELECTED)) == 1
    )


def invalid(table, target):
    return [state for state in type(target) if not table.may_become(state, target)]


# ---------------------------------------------------------------- every invalid change


@pytest.mark.parametrize("target", list(P))
def test_no_partition_moves_but_as_the_table_says_and_the_others_do(led, target):
    known = context(led)
    wrong = dict(zip(known.partitions_of("t"), invalid(partition_states, target), strict=False))
    assert len(wrong) == len(P) - len(partition_states.VALID_PREVIOUS[target])
    sound = known.partitions_of("t")[len(wrong)]
    before = partition_states.VALID_PREVIOUS[target][-1]
    known.partition_states |= {**wrong, sound: before}
    states = {at: led.state(*at) for at in wrong}
    told = commands_to(led)
    term = led.active()._controller.term
    assert led.do(lambda _: move_partitions(term, [*wrong, sound], target)) == [sound]
    led.settle()
    assert not_made(led, EventKind.TRANSITION_REFUSED) == [
        (at, None, state.value, target.value, 1) for at, state in wrong.items()
    ]
    assert {at: known.partition_state(at) for at in wrong} == wrong
    assert known.partition_state(sound) is target
    assert {at: led.state(*at) for at in wrong} == states
    assert not {at for _, _, at in commands_to(led)[len(told) :]} & set(wrong)
    assert lives(led)


@pytest.mark.parametrize("target", list(R))
def test_no_replica_moves_but_as_the_table_says_and_the_others_do(led, target):
    known = context(led)
    replicas = [Replica(at, FOLLOWER) for at in known.partitions_of("t")]
    wrong = dict(zip(replicas, invalid(replica_states, target), strict=False))
    assert len(wrong) == len(R) - len(replica_states.VALID_PREVIOUS[target])
    sound = replicas[len(wrong)]
    before = replica_states.VALID_PREVIOUS[target][-1]
    known.replica_states |= {**wrong, sound: before}
    states = {replica: led.state(*replica.topic_partition) for replica in wrong}
    told = commands_to(led)
    term = led.active()._controller.term
    assert led.do(lambda _: move_replicas(term, [*wrong, sound], target)) == [sound]
    led.settle()
    assert not_made(led, EventKind.TRANSITION_REFUSED) == [
        (replica.topic_partition, FOLLOWER, state.value, target.value, 1)
        for replica, state in wrong.items()
    ]
    assert {replica: known.replica_state(replica) for replica in wrong} == wrong
    assert {replica: led.state(*replica.topic_partition) for replica in wrong} == states
    refused = {replica.topic_partition for replica in wrong}
    assert not {at for _, _, at in commands_to(led)[len(told) :]} & refused
    assert lives(led)


# ---------------------------------------------------------------- impossible changes


def failures(cluster):
    return [
        (event.topic_partition, event.detail.get("replica"), event.detail["reason"])
        for event in cluster.events(EventKind.STATE_CHANGE_FAILED)
    ]


def test_a_new_replica_that_leads_already_stays_as_it_is_and_others_start(led):
    known = context(led)
    leader, other = Replica(P0, NodeId(0)), Replica(TopicPartition("t", 1), FOLLOWER)
    for replica in (leader, other):
        known.replica_states[replica] = R.NON_EXISTENT
    led.do(lambda _: move_replicas(led.active()._controller.term, [leader, other], R.NEW))
    assert failures(led) == [(P0, 0, "it leads the partition")]
    assert known.replica_state(leader) is R.NON_EXISTENT
    assert known.replica_state(other) is R.NEW
    assert lives(led)


def test_a_replica_whose_partition_has_no_state_stays_as_it_is_and_others_go_offline(led):
    """The state's znode was removed: there is no ISR that the replica could leave."""
    led.delete(znodes.partition_state_path(P0))
    led.brokers[FOLLOWER].die()
    led.until(lambda: FOLLOWER not in context(led).live_brokers, "the death")
    led.settle()
    assert failures(led) == [(P0, FOLLOWER, "the partition has no state")]
    assert context(led).replica_state(Replica(P0, FOLLOWER)) is R.ONLINE
    assert context(led).replica_state(Replica(TopicPartition("t", 1), FOLLOWER)) is R.OFFLINE
    assert led.state("t", 1).isr == (0, 2)
    assert lives(led)


def test_partitions_that_find_no_leader_say_why_and_the_others_are_led(led):
    term = led.active()._controller.term
    other = TopicPartition("t", 1)
    term.context.partition_states |= {P0: P.OFFLINE, other: P.OFFLINE}
    led.write(
        znodes.partition_state_path(P0),
        b'{"version":1,"leader":-1,"leader_epoch":0,"controller_epoch":1,"isr":[9,0]}',
    )
    term.context.shutting_down |= {NodeId(0)}
    led.do(lambda _: elect_leaders_where_none(term))
    reason = "neither an ISR member nor an eligible replica is live"
    assert failures(led) == [(P0, None, reason)]
    assert term.context.partition_state(P0) is P.OFFLINE
    assert led.state("t", 1).leader == 1


def test_a_replica_that_was_away_at_its_partitions_first_election_is_started_when_it_comes(cluster):
    """Also where its init command is withheld, which would list the partition."""
    cluster.start_broker(2)
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.write(znodes.topic_path("odd"), b"garbage")
    cluster.write_topic("t", (0, 1))
    cluster.until(lambda: P0 in context(cluster).assignments, "the topic")
    cluster.settle()
    assert failures(cluster) == [
        (P0, None, "no replica is live"),
        (P0, 0, "the partition has no state"),
        (P0, 1, "the partition has no state"),
    ]
    cluster.start_broker(0)
    cluster.until(lambda: cluster.data(znodes.partition_state_path(P0)), "the first election")
    cluster.start_broker(1)
    cluster.until(lambda: P0 in cluster.brokers[1].leaderships(), "the word of it")
    assert cluster.brokers[1].leaderships()[P0].isr == (0,)
    assert not any(each.is_init for each in cluster.brokers[1].heard(LeaderAndIsrRequest))


@pytest.fixture
def never_led(cluster):
    """A topic of brokers 0 and 1, which are away."""
    cluster.start_broker(2)
    cluster.start_controller()
    cluster.until_failed_over()
    cluster.write_topic("t", (0, 1))
    cluster.until(lambda: P0 in context(cluster).assignments, "the topic")
    cluster.settle()
    assert context(cluster).partition_state(P0) is P.NEW
    return cluster


def test_a_topic_that_nobody_ever_led_is_deleted_by_valid_changes_alone(never_led):
    never_led.write(znodes.delete_topic_path("t"), b"")
    never_led.settle()
    for broker in (0, 1):
        never_led.start_broker(broker)
    never_led.until(lambda: never_led.events(EventKind.TOPIC_DELETED), "the deletion")
    never_led.settle()
    assert not_made(never_led, EventKind.TRANSITION_REFUSED) == []
    assert never_led.data(znodes.topic_path("t")) is None
    assert not never_led.brokers[1].leaderships()


def test_a_partition_that_nobody_ever_led_is_moved_by_valid_changes_alone(never_led):
    never_led.start_broker(3)
    moves = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3]}]}'
    never_led.write(znodes.REASSIGN_PARTITIONS, moves)
    over = EventKind.REASSIGNMENT_COMPLETED
    never_led.until(lambda: never_led.events(over), "the move")
    assert (never_led.state("t").leader, never_led.state("t").isr) == (3, (3,))
    assert not_made(never_led, EventKind.TRANSITION_REFUSED) == []
    assert set(context(never_led).replica_states) == {Replica(P0, NodeId(3))}
    assert lives(never_led)


# ---------------------------------------------------------------- why


def test_each_change_of_state_names_the_epochs_and_its_cause(led):
    led.brokers[0].die()
    led.until(lambda: led.state("t").leader == 1, "the election")
    led.settle()
    of_broker = [
        (event.kind, event.leader_epoch, event.detail["trigger"])
        for event in led.events(
            EventKind.PARTITION_STATE_CHANGED, EventKind.REPLICA_STATE_CHANGED,
            EventKind.LEADER_ELECTED,
        )
        if event.topic_partition == P0 and event.controller_epoch == 1
    ]  # fmt: skip
    created, died = "CreateTopicsRequest", "BrokersChanged"
    changed, moved = EventKind.PARTITION_STATE_CHANGED, EventKind.REPLICA_STATE_CHANGED
    assert of_broker == [
        (changed, None, created),
        *[(moved, None, created)] * 3,
        (EventKind.LEADER_ELECTED, 0, created),
        (changed, 0, created),
        *[(moved, 0, created)] * 3,
        (changed, 0, died),
        (EventKind.LEADER_ELECTED, 1, died),
        (changed, 1, died),
        (moved, 1, died),
    ]
