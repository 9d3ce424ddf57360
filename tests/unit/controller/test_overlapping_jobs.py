"""Jobs whose znodes others write at the same moment: their znode, a deletion, a configuration."""

from __future__ import annotations

import json

import pytest

from highwater_core import znodes
from highwater_core.admin_messages import (
    AlterConfigsRequest,
    AlteredConfig,
    AlterReassignmentsRequest,
    ConfigChange,
    ConfigEntity,
    ConfigOperation,
    ReassignmentItem,
)
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import LeaderAndIsrRequest, StopReplicaRequest
from highwater_core.ports import TooLarge
from highwater_core.request_sizes import SERVER_LIMIT_BYTES
from highwater_core.topic_znode import Reassignment, decode_topic
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory
from tests.unit.controller.isr_joins import join

T0 = TopicPartition("t", 0)
U0 = TopicPartition("u", 0)


@pytest.fixture
def moving(running):
    """Topics t and u on brokers 0 and 1; broker 3 is free."""
    running.start_broker(3)
    running.settle()
    for name in ("t", "u"):
        running.create_topic(name, (0, 1))
    running.settle()
    return running


def to(at, *replicas):
    return ReassignmentItem(at, tuple(map(NodeId, replicas)) or None)


def reassign(cluster, *items):
    response = cluster.ask(AlterReassignmentsRequest(items))
    cluster.settle()
    return [result.error for result in response.results]


def moves(cluster, topic="t"):
    return decode_topic(cluster.data(znodes.topic_path(topic)), topic).reassignments


def listed(*partitions):
    named = [
        {"topic": topic, "partition": 0, **({"replicas": list(replicas)} if replicas else {})}
        for topic, *replicas in partitions
    ]
    return json.dumps({"version": 1, "partitions": named}, separators=(",", ":")).encode()


def test_elections_that_are_written_over_others_are_held_too(moving):
    reassign(moving, to(T0, 1, 0), to(U0, 1, 0))
    path = znodes.PREFERRED_REPLICA_ELECTION
    moving.before_multi(path, lambda: moving.put(path, listed(("t",))))
    moving.write(path, listed(("u",)))
    moving.settle()
    assert [moving.state(topic).leader for topic in ("t", "u")] == [1, 1]
    assert moving.data(path) is None


def test_jobs_that_are_written_over_garbage_are_done(moving):
    path = znodes.REASSIGN_PARTITIONS
    moving.before_multi(path, lambda: moving.put(path, listed(("t", 0, 3))))
    moving.write(path, b"{")
    moving.settle()
    assert moves(moving) == {T0: Reassignment((3,), (1,))}


def test_jobs_that_no_controller_could_remove_cost_none_its_office(moving):
    """An operator's tool may write a larger znode than a node does."""
    jobs = listed(("none", 1), *[("t", 0, 3)] * 23_000)
    assert len(jobs) < SERVER_LIMIT_BYTES - 200
    tool = moving.kernel.runtime("tool")
    factory = SimulatedCoordinationFactory(moving.zookeeper, tool, 2 * SERVER_LIMIT_BYTES)

    async def write():
        session = await factory.open(60_000)
        await session.create(znodes.REASSIGN_PARTITIONS, jobs)

    moving.until(tool.start("write", write()).is_done, "the tool's write")
    moving.settle(3_000)
    assert len(moving.events(EventKind.CONTROLLER_ELECTED)) == 1
    assert moving.data(znodes.REASSIGN_PARTITIONS) is None
    (told,) = moving.events(EventKind.BAD_INPUT_MET)
    assert "at most 1000000" in told.detail["what"]
    assert moves(moving) == {}


def test_a_deletion_that_is_seen_in_the_middle_of_a_request_is_not_undone(moving):
    """The deletion of t, put off until its move is given up, shows the controller that of u."""
    reassign(moving, to(T0, 0, 3))
    moving.delete_topic("t")
    doomed = znodes.delete_topic_path("u")
    moving.before_multi(znodes.topic_path("t"), lambda: moving.put(doomed, b""))
    errors = reassign(moving, to(T0), to(U0, 0, 3))
    assert errors == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    moving.settle()
    assert moving.data(znodes.topic_path("u")) is None
    for broker in (0, 1):
        *_, last = [
            request
            for request in moving.brokers[broker].told
            if isinstance(request, LeaderAndIsrRequest | StopReplicaRequest)
            and any(item.topic_partition == U0 for item in request.partitions)
        ]
        assert isinstance(last, StopReplicaRequest), "nothing starts a deleted replica again"


@pytest.mark.parametrize("owner", [(ConfigEntity.TOPIC, "t"), (ConfigEntity.BROKER, "0")])
def test_a_lower_minimum_ends_a_move_that_was_given_up(moving, owner):
    """Its added replicas had to stay, since the original ones in sync were too few for writes."""
    config = (ConfigChange("min.insync.replicas", ConfigOperation.SET, "2"),)
    lower = (ConfigChange("min.insync.replicas", ConfigOperation.SET, "1"),)
    name = AlteredConfig(*owner, config, replaces_all=False)
    moving.ask(AlterConfigsRequest((name,), validate_only=False, timeout_ms=10_000))
    reassign(moving, to(T0, 2, 3))
    join(moving, 0, 1, 2)
    moving.brokers[1].die()
    moving.settle()
    reassign(moving, to(T0))
    assert moves(moving), "broker 0 alone could commit nothing"
    name = AlteredConfig(*owner, lower, replaces_all=False)
    moving.ask(AlterConfigsRequest((name,), validate_only=False, timeout_ms=10_000))
    moving.settle()
    assert moves(moving) == {}
    assert moving.state("t").isr == (0,)


# ---------------------------------------------------------------- a topic's znode without room


def refuse_writes(cluster, path):
    """Have every write of the znode be too large, as one of a node where others wrote more."""

    async def refuse():
        cluster.before_multi(path, refuse)
        raise TooLarge("1000050 bytes, at most 1000000")

    cluster.before_multi(path, refuse)


def test_a_move_whose_znode_cannot_be_written_waits_for_a_repair(moving):
    reassign(moving, to(T0, 0, 3), to(U0, 0, 3))
    path = znodes.topic_path("t")
    refuse_writes(moving, path)
    assert join(moving, 0, 1, 3, at=T0) is ErrorCode.NONE
    assert join(moving, 0, 1, 3, at=U0) is ErrorCode.NONE
    assert (moves(moving), moves(moving, "u")) == ({T0: Reassignment((3,), (1,))}, {})
    assert [each.detail["where"] for each in moving.events(EventKind.BAD_INPUT_MET)] == [path]
    before = moving.state("t").leader_epoch
    moving.brokers[2].die()
    assert join(moving, 0, 3, at=T0) is ErrorCode.NONE
    moving.settle(20_000)
    assert moving.state("t").leader_epoch == before, "nothing is tried again and again"
    moving.kill_controller(1000)
    moving.start_controller(1001)
    moving.until_failed_over()
    moving.settle(20_000)
    assert [each.detail["where"] for each in moving.events(EventKind.BAD_INPUT_MET)] == [path] * 2
    assert moving.events(EventKind.CONTROLLER_RESIGNED) == []
    moving.multi_hooks.clear()
    moving.write(path, moving.data(path))
    moving.settle()
    assert moves(moving) == {}
    assert decode_topic(moving.data(path), "t").assignment[T0] == (0, 3)


def test_a_topic_whose_move_waits_for_a_repair_may_be_removed_by_hand(moving):
    reassign(moving, to(T0, 0, 3))
    path = znodes.topic_path("t")
    refuse_writes(moving, path)
    join(moving, 0, 1, 3, at=T0)
    moving.multi_hooks.clear()
    for child in ("partitions/0/state", "partitions/0", "partitions", ""):
        moving.delete(f"{path}/{child}".rstrip("/"))
    moving.settle()
    moving.create_topic("t", (0, 1))
    moving.settle()
    reassign(moving, to(T0, 0, 3))
    join(moving, 0, 1, 3, at=T0)
    assert moves(moving) == {}


def test_a_move_whose_znode_became_garbage_is_not_tried_again_and_again(moving):
    reassign(moving, to(T0, 0, 3))
    path = znodes.topic_path("t")
    moving.before_multi(znodes.partition_state_path(T0), lambda: moving.put(path, b"{"))
    join(moving, 0, 1, 3, at=T0)
    before = moving.state("t").leader_epoch, len(moving.events(EventKind.BAD_INPUT_MET))
    join(moving, 0, 3, at=T0)
    moving.settle(20_000)
    after = moving.state("t").leader_epoch, len(moving.events(EventKind.BAD_INPUT_MET))
    assert before == after
