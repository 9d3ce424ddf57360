"""Reassignments: by request and by znode, overlapping, given up, resumed by another controller."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from highwater_core import znodes
from highwater_core.admin_messages import (
    AlterReassignmentsRequest,
    ListReassignmentsRequest,
    OngoingReassignment,
    ReassignmentItem,
)
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import (
    StopReplicaRequest,
)
from highwater_core.topic_znode import Reassignment, decode_topic
from tests.unit.controller.isr_joins import join

P0 = TopicPartition("t", 0)


@pytest.fixture
def moving(running):
    """Topic t on brokers 0 and 1; broker 3 is free."""
    running.start_broker(3)
    running.settle()
    running.create_topic("t", (0, 1))
    running.settle()
    return running


def reassign(cluster, *replicas, at=P0, controller_id=1000):
    target = None if replicas == (None,) else tuple(NodeId(r) for r in replicas)
    request = AlterReassignmentsRequest((ReassignmentItem(at, target),))
    response = cluster.ask(request, controller_id)
    assert response.error is ErrorCode.NONE
    (result,) = response.results
    cluster.settle()
    return result.error


def topic(cluster, name="t"):
    return decode_topic(cluster.data(znodes.topic_path(name)), name)


def ongoing(cluster, controller_id=1000):
    return cluster.ask(ListReassignmentsRequest(None), controller_id).reassignments


def stopped(cluster, broker):
    return [
        (item.topic_partition, item.delete_partition)
        for request in cluster.brokers[broker].heard(StopReplicaRequest)
        for item in request.partitions
    ]


def test_replicas_move_once_the_target_is_in_sync_and_not_before(moving):
    topic_id = topic(moving).topic_id
    assert reassign(moving, 3, 2) is ErrorCode.NONE
    assert topic(moving).assignment[P0] == (3, 2, 0, 1)
    assert topic(moving).reassignments == {P0: Reassignment((3, 2), (0, 1))}
    assert topic(moving).topic_id == topic_id
    assert ongoing(moving) == (OngoingReassignment(P0, (3, 2, 0, 1), (3, 2), (0, 1)),)
    for broker in (2, 3):
        assert moving.brokers[broker].leaderships()[P0].is_new
    assert moving.brokers[0].leaderships()[P0].assigned_replicas == (3, 2, 0, 1)
    assert moving.brokers[0].leaderships()[P0].leader_epoch == 1
    assert join(moving, 0, 1, 3) is ErrorCode.NONE
    assert topic(moving).assignment[P0] == (3, 2, 0, 1), "broker 2 is not in sync yet"
    assert stopped(moving, 0) == []
    assert join(moving, 0, 1, 3, 2) is ErrorCode.NONE
    assert topic(moving).assignment[P0] == (3, 2)
    assert topic(moving).reassignments == {}
    state = moving.state("t")
    assert (state.leader, state.isr) == (3, (3, 2))
    for broker in (0, 1):
        assert stopped(moving, broker) == [(P0, False), (P0, True)]
    for broker in (2, 3):
        told = moving.brokers[broker].leaderships()[P0]
        assert (told.leader, told.isr, told.assigned_replicas) == (3, (3, 2), (3, 2))
    assert ongoing(moving) == ()
    assert not moving.events(EventKind.TRANSITION_REFUSED)


def test_the_leader_stays_where_the_target_has_it(moving):
    reassign(moving, 0, 3)
    before = moving.state("t").leader_epoch
    join(moving, 0, 1, 3)
    state = moving.state("t")
    assert (state.leader, state.isr) == (0, (0, 3))
    assert state.leader_epoch == before + 1, "leader and ISR are written once"
    assert stopped(moving, 1) == [(P0, False), (P0, True)]
    assert stopped(moving, 0) == []


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((2, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((9,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (tuple(range(1_001)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((None,), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ((0, 1), ErrorCode.NONE),
    ],
)
def test_the_targets_of_a_reassignment_that_are_refused(moving, replicas, error):
    assert reassign(moving, *replicas) is error
    assert topic(moving).assignment[P0] == (0, 1)
    assert ongoing(moving) == ()


def test_an_unknown_partition_is_refused_and_the_others_go_on(moving):
    items = tuple(
        ReassignmentItem(at, (NodeId(0), NodeId(3)))
        for at in (TopicPartition("t", 7), P0, TopicPartition("none", 0), TopicPartition("t", -1))
    )
    response = moving.ask(AlterReassignmentsRequest(items))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error for each in response.results] == [unknown, ErrorCode.NONE, unknown, unknown]
    assert topic(moving).reassignments == {P0: Reassignment((3,), (1,))}


def test_an_order_alone_changes_who_is_preferred(moving):
    assert reassign(moving, 1, 0) is ErrorCode.NONE
    assert topic(moving).assignment[P0] == (1, 0)
    assert moving.state("t").leader == 0
    assert moving.brokers[1].leaderships()[P0].assigned_replicas == (1, 0)
    assert ongoing(moving) == ()


def test_cancelling_removes_the_added_replicas(moving):
    reassign(moving, 2, 3)
    join(moving, 0, 1, 2)
    assert reassign(moving, None) is ErrorCode.NONE
    assert topic(moving).assignment[P0] == (0, 1)
    assert topic(moving).reassignments == {}
    assert moving.state("t").isr == (0, 1)
    for broker in (2, 3):
        assert stopped(moving, broker) == [(P0, False), (P0, True)]


def test_giving_up_ends_though_an_original_replica_is_dead(moving):
    moving.brokers[1].die()
    moving.settle()
    reassign(moving, 0, 3)
    assert reassign(moving, None) is ErrorCode.NONE
    assert topic(moving).assignment[P0] == (0, 1)
    assert topic(moving).reassignments == {}
    assert stopped(moving, 3) == [(P0, False), (P0, True)]


def test_giving_up_loses_nothing_where_only_new_replicas_are_in_sync(moving):
    reassign(moving, 2, 3)
    join(moving, 0, 1, 2)
    for broker in (0, 1):
        moving.brokers[broker].die()
    moving.settle(7_000)
    assert moving.state("t").leader == 2
    assert reassign(moving, None) is ErrorCode.NONE
    assert topic(moving).reassignments == {P0: Reassignment((2, 3), (2, 3))}
    assert reassign(moving, None) is ErrorCode.NONE, "to give it up again changes nothing"
    assert topic(moving).reassignments == {P0: Reassignment((2, 3), (2, 3))}
    assert moving.state("t").leader == 2
    assert stopped(moving, 2) == []


def test_another_target_keeps_replicas_that_may_be_the_only_ones_in_sync(moving):
    reassign(moving, 2)
    assert reassign(moving, 3) is ErrorCode.NONE
    assert topic(moving).assignment[P0] == (3, 2, 0, 1)
    assert topic(moving).reassignments == {P0: Reassignment((3, 2), (2, 0, 1))}
    join(moving, 0, 1, 3)
    assert topic(moving).assignment[P0] == (3,)
    assert stopped(moving, 2) == [(P0, False), (P0, True)]


def test_a_target_that_dies_is_waited_for(moving):
    reassign(moving, 0, 3)
    moving.brokers[3].die()
    moving.settle()
    assert ongoing(moving) != ()
    moving.start_broker(3)
    moving.settle()
    assert P0 in moving.brokers[3].leaderships()
    join(moving, 0, 1, 3)
    assert topic(moving).assignment[P0] == (0, 3)


def test_a_replica_that_goes_may_be_dead(moving):
    reassign(moving, 0, 3)
    moving.brokers[1].die()
    moving.settle()
    join(moving, 0, 3)
    assert topic(moving).assignment[P0] == (0, 3)
    moving.start_broker(1)
    moving.settle()
    assert P0 not in moving.brokers[1].leaderships(), "it sets its log aside"


def test_the_next_controller_goes_on(moving):
    reassign(moving, 3, 2)
    moving.kill_controller(1000)
    moving.start_controller(1001)
    moving.until_failed_over()
    assert topic(moving).reassignments == {P0: Reassignment((3, 2), (0, 1))}
    join(moving, 0, 1, 3, 2, controller_id=1001)
    assert topic(moving).assignment[P0] == (3, 2)
    assert not moving.events(EventKind.TRANSITION_REFUSED)


def test_under_v3_a_leaders_own_write_completes_it_too(cluster):
    for broker in range(3):
        cluster.start_broker(broker)
    cluster.start_controller(preset=Preset.V3)
    cluster.until_failed_over()
    cluster.create_topic("t", (0, 1))
    assert reassign(cluster, 2) is ErrorCode.NONE
    assert cluster.data(znodes.topic_path("t")) == (
        b'{"version":2,"partitions":{"0":[2,0,1]},'
        b'"adding_replicas":{"0":[2]},"removing_replicas":{"0":[0,1]}}'
    )
    state = replace(cluster.state("t"), isr=(NodeId(0), NodeId(1), NodeId(2)))
    cluster.write(znodes.partition_state_path(P0), znodes.encode_partition_state(state))
    named = znodes.PartitionsZnode([znodes.PartitionName("t", 0)])
    notification = f"{znodes.ISR_CHANGE_NOTIFICATION}/{znodes.ISR_CHANGE_PREFIX}0000000000"
    cluster.write(notification, znodes.encode(named))
    cluster.settle()
    assert cluster.data(znodes.topic_path("t")) == b'{"version":1,"partitions":{"0":[2]}}'
    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))


def test_isr_members_unassigned_by_hand_stay_until_the_others_are_in_sync(moving):
    moving.kill_controller(1000)
    moving.write_topic("t", (2, 1))
    moving.start_controller(1001, Preset.FENCED)
    moving.until_failed_over()
    assert ongoing(moving, 1001) == (OngoingReassignment(P0, (2, 1, 0), (), (0,)),)
    assert moving.state("t").leader == 0
    join(moving, 0, 1, 2, controller_id=1001)
    assert topic(moving).assignment[P0] == (2, 1)
    assert moving.state("t").leader == 2


# ---------------------------------------------------------------- the znode of before KIP-455


def written(*partitions):
    listed = [{"topic": t, "partition": p, "replicas": list(r)} for t, p, r in partitions]
    return json.dumps({"version": 1, "partitions": listed}).encode()


def test_the_admin_znode_is_obeyed_and_goes_once_all_is_done(moving):
    moving.write(znodes.REASSIGN_PARTITIONS, written(("t", 0, (0, 3)), ("none", 0, (1,))))
    moving.settle()
    assert topic(moving).reassignments == {P0: Reassignment((3,), (1,))}
    left = json.loads(moving.data(znodes.REASSIGN_PARTITIONS))["partitions"]
    assert left == [{"topic": "t", "partition": 0, "replicas": [0, 3]}]
    join(moving, 0, 1, 3)
    assert moving.data(znodes.REASSIGN_PARTITIONS) is None
    assert topic(moving).assignment[P0] == (0, 3)
    moving.write(znodes.REASSIGN_PARTITIONS, written(("t", 0, (0, 3))))
    moving.settle()
    assert moving.data(znodes.REASSIGN_PARTITIONS) is None, "what is so already is done"


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"version":1}', b"\xff" * 100])
def test_garbage_in_the_admin_znode_is_traced_and_removed(moving, garbage):
    moving.write(znodes.REASSIGN_PARTITIONS, garbage)
    moving.settle()
    assert moving.data(znodes.REASSIGN_PARTITIONS) is None
    assert moving.events(EventKind.BAD_INPUT_MET)
    assert reassign(moving, 0, 3) is ErrorCode.NONE


MALFORMED = [
    7,
    [],
    {"topic": 1, "partition": 0, "replicas": [0]},
    {"topic": "t", "partition": "0", "replicas": [0]},
    {"topic": "t", "replicas": [0]},
    {"topic": "t", "partition": 1, "replicas": "0,1"},
]


def test_a_malformed_reassignment_is_left_out_and_the_others_are_done(moving):
    well_formed = json.loads(written(("t", 0, (0, 3))))["partitions"]
    listed = {"version": 1, "partitions": MALFORMED[:3] + well_formed + MALFORMED[3:]}
    moving.write(znodes.REASSIGN_PARTITIONS, json.dumps(listed).encode())
    moving.settle()
    assert topic(moving).reassignments == {P0: Reassignment((3,), (1,))}
    (told,) = moving.events(EventKind.BAD_INPUT_MET)
    assert f"{len(MALFORMED)} malformed" in told.detail["what"]
    join(moving, 0, 1, 3)
    assert moving.data(znodes.REASSIGN_PARTITIONS) is None


def test_malformed_reassignments_alone_are_removed(moving):
    moving.write(
        znodes.REASSIGN_PARTITIONS, json.dumps({"version": 1, "partitions": MALFORMED}).encode()
    )
    moving.settle()
    assert moving.data(znodes.REASSIGN_PARTITIONS) is None
    assert moving.events(EventKind.BAD_INPUT_MET)


def test_a_request_takes_a_partition_over_from_the_admin_znode(moving):
    moving.write(znodes.REASSIGN_PARTITIONS, written(("t", 0, (0, 3))))
    moving.settle()
    assert reassign(moving, 0, 2) is ErrorCode.NONE
    assert moving.data(znodes.REASSIGN_PARTITIONS) is None
    assert topic(moving).reassignments == {P0: Reassignment((2, 3), (3, 1))}


def test_the_next_controller_reads_the_admin_znode(moving):
    moving.kill_controller(1000)
    moving.write(znodes.REASSIGN_PARTITIONS, written(("t", 0, (0, 3))))
    moving.start_controller(1001)
    moving.until_failed_over()
    assert topic(moving).reassignments == {P0: Reassignment((3,), (1,))}


@pytest.mark.parametrize("path", [znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_REPLICA_ELECTION])
@pytest.mark.parametrize("content", [b"{", b'{"version":1,"partitions":[]}'])
def test_an_admin_znode_with_children_costs_nobody_the_office(moving, path, content):
    moving.write(path, content)
    moving.write(f"{path}/child", b"")
    moving.settle(3_000)
    assert len(moving.events(EventKind.CONTROLLER_ELECTED)) == 1
    assert reassign(moving, 0, 3) is ErrorCode.NONE


@pytest.mark.parametrize("path", [znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_REPLICA_ELECTION])
def test_an_empty_admin_znode_goes(moving, path):
    moving.write(path, b'{"version":1,"partitions":[]}')
    moving.settle()
    assert moving.data(path) is None


def test_cancelling_an_overlapping_reassignment_restores_the_original_replicas(moving):
    reassign(moving, 2)
    reassign(moving, 3)
    assert reassign(moving, None) is ErrorCode.NONE
    assert sorted(topic(moving).assignment[P0]) == [0, 1]
    assert ongoing(moving) == ()


def test_the_next_controller_ends_a_cancelled_reassignment(moving):
    """A dead original replica is not waited for, by whichever controller."""
    reassign(moving, 2, 3)
    join(moving, 0, 1, 2)
    for broker in (0, 1):
        moving.brokers[broker].die()
    moving.settle(7_000)
    reassign(moving, None)
    moving.kill_controller(1000)
    moving.start_controller(1001)
    moving.until_failed_over()
    moving.start_broker(0)
    moving.settle()
    join(moving, 2, 0, controller_id=1001)
    assert topic(moving).assignment[P0] == (0, 1)
    assert moving.state("t").isr == (0,)


# ---------------------------------------------------------------- beside deletions


def test_a_deletion_waits_until_the_replicas_have_moved(moving):
    reassign(moving, 0, 3)
    assert moving.delete_topic("t").results[0].error is ErrorCode.NONE
    assert moving.data(znodes.topic_path("t")) is not None
    assert reassign(moving, 0, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    join(moving, 0, 1, 3)
    moving.settle()
    assert moving.data(znodes.topic_path("t")) is None
    assert moving.data(znodes.delete_topic_path("t")) is None


def test_a_deletion_goes_on_once_a_reassignment_is_given_up(moving):
    reassign(moving, 0, 3)
    moving.delete_topic("t")
    assert reassign(moving, None) is ErrorCode.NONE
    moving.settle()
    assert moving.data(znodes.topic_path("t")) is None


def test_a_topic_that_is_being_deleted_is_not_reassigned(moving):
    moving.brokers[1].die()
    moving.settle()
    moving.delete_topic("t")
    assert reassign(moving, 0, 3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---------------------------------------------------------------- jobs of many, and odd ones


def decisions(cluster):
    return len(cluster.events(EventKind.LEADERSHIP_DECIDED))


def test_a_repeat_of_the_target_changes_nothing(moving):
    reassign(moving, 2, 3)
    before = decisions(moving), moving.data(znodes.topic_path("t"))
    assert reassign(moving, 2, 3) is ErrorCode.NONE
    moving.write(znodes.REASSIGN_PARTITIONS, written(("t", 0, (2, 3))))
    moving.settle()
    assert (decisions(moving), moving.data(znodes.topic_path("t"))) == before
    assert moving.state("t").leader_epoch == 1


def test_a_target_that_is_there_already_raises_no_epoch(moving):
    assert reassign(moving, 0, 1) is ErrorCode.NONE
    assert moving.state("t").leader_epoch == 0


def test_a_partition_that_is_named_twice_is_refused_and_the_others_go_on(moving):
    moving.create_topic("u", (0, 1))
    moving.settle()
    targets = ((P0, (2,)), (TopicPartition("u", 0), (3,)), (P0, (3,)))
    items = tuple(ReassignmentItem(at, tuple(map(NodeId, to))) for at, to in targets)
    results = moving.ask(AlterReassignmentsRequest(items)).results
    assert {each.topic_partition: each.error for each in results} == {
        P0: ErrorCode.INVALID_REQUEST,
        TopicPartition("u", 0): ErrorCode.NONE,
    }
    assert [each.topic_partition.topic for each in ongoing(moving)] == ["u"]


def test_a_topic_that_is_removed_by_hand_takes_its_jobs_with_it(moving):
    moving.create_topic("u", (0, 1))
    moving.settle()
    moving.write(znodes.REASSIGN_PARTITIONS, written(("t", 0, (0, 3)), ("u", 0, (0, 3))))
    moving.settle()
    for path in ("partitions/0/state", "partitions/0", "partitions", ""):
        moving.delete(f"{znodes.topic_path('t')}/{path}".rstrip("/"))
    moving.settle()
    left = json.loads(moving.data(znodes.REASSIGN_PARTITIONS))["partitions"]
    assert [each["topic"] for each in left] == ["u"]


def test_a_state_that_is_removed_in_the_middle_gives_no_empty_replica_the_lead(moving):
    reassign(moving, 3, 0, 2)
    moving.kill_controller(1000)
    moving.delete(znodes.partition_state_path(P0))
    moving.start_controller(1001)
    moving.until_failed_over()
    state = moving.state("t")
    assert (state.leader, state.isr) == (0, (0, 1))
    assert {3, 2} <= set(moving.brokers[0].leaderships()[P0].assigned_replicas)
    assert moving.brokers[3].leaderships()[P0].leader == 0


def test_a_job_that_is_given_up_stays_so_though_the_controller_dies(moving):
    """It had come by the admin znode, which must not begin it anew."""
    moving.write(znodes.REASSIGN_PARTITIONS, written(("t", 0, (3, 2))))
    moving.settle()
    moving.ask_later(AlterReassignmentsRequest((ReassignmentItem(P0, None),)), [])
    given_up = {P0: Reassignment((3, 2), (3, 2))}
    moving.until(lambda: topic(moving).reassignments == given_up, "its first write")
    moving.kill_controller(1000)
    moving.settle()
    assert topic(moving).reassignments == given_up
    moving.start_controller(1001)
    moving.until_failed_over()
    assert topic(moving).assignment[P0] == (0, 1)
    assert topic(moving).reassignments == {}


def test_a_job_ends_once_its_topics_znode_is_repaired(moving):
    reassign(moving, 0, 3)
    path = znodes.topic_path("t")
    sound = moving.data(path)

    async def spoil():
        await moving.put(path, b"{")

    moving.before_multi(znodes.partition_state_path(P0), spoil)
    join(moving, 0, 1, 3)
    join(moving, 0, 3)
    assert moving.data(path) == b"{"
    moving.write(path, sound)
    moving.settle()
    assert topic(moving).assignment[P0] == (0, 3)
    assert ongoing(moving) == ()


MANY = 600


@pytest.fixture
def of_many(moving):
    moving.create_topic("m", *[(0, 1)] * MANY)
    moving.settle(2_000)
    return moving


def test_a_large_admin_znode_lets_other_events_through(of_many):
    of_many.write(
        znodes.REASSIGN_PARTITIONS, written(*(("m", number, (0, 3)) for number in range(MANY)))
    )
    of_many.until(lambda: of_many.events(EventKind.REASSIGNMENT_BEGUN), "the first is begun")
    assert of_many.ask(ListReassignmentsRequest(None)).reassignments
    assert len(of_many.events(EventKind.REASSIGNMENT_BEGUN)) < MANY
    of_many.settle(5_000)
    assert len(of_many.events(EventKind.REASSIGNMENT_BEGUN)) == MANY


def test_ended_reassignments_leave_the_admin_znode_together(of_many):
    targets = {number: (0, 3) if number < 20 else (3, 2) for number in range(50)}
    of_many.write(
        znodes.REASSIGN_PARTITIONS,
        written(*(("m", number, to) for number, to in targets.items())),
    )
    of_many.settle()
    for number in range(20):
        join(of_many, 0, 1, 3, at=TopicPartition("m", number), settles_ms=0)
    of_many.settle()
    assert len(json.loads(of_many.data(znodes.REASSIGN_PARTITIONS))["partitions"]) == 30
    _, stat = of_many.zookeeper.dump()[znodes.REASSIGN_PARTITIONS]
    assert 0 < stat.node_version < 5
