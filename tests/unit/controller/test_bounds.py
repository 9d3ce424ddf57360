"""No request, size or failing operation holds the controller up for good."""

from __future__ import annotations

import pytest

from highwater_controller import chunks, topic_requests
from highwater_controller.chunks import multis, pieces
from highwater_controller.patience import GIVE_UP_ATTEMPTS, GaveUp, Patience
from highwater_controller.store import ControllerStore
from highwater_controller.tree_removal import remove_topic
from highwater_core import topic_plans, znodes
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import FailPoints
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    LeaderAndIsrRequest,
    NewTopic,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from highwater_core.ports import CreateOp, DeleteOp, NotEmpty
from highwater_core.request_sizes import MAX_REQUEST_BYTES, size_of_multi

NONE = ErrorCode.NONE
P0 = TopicPartition("t", 0)


def create(cluster, *topics, validate_only=False):
    request = CreateTopicsRequest(topics, validate_only)
    return [result.error for result in cluster.ask(request).results]


def delete(cluster, *names):
    return [result.error for result in cluster.ask(DeleteTopicsRequest(names)).results]


# ---------------------------------------------------------------- pieces


def test_operations_are_cut_by_count_and_by_size_and_groups_stay_together(monkeypatch):
    monkeypatch.setattr(chunks, "MAX_OPERATIONS", 4)
    groups = [[DeleteOp(f"/{n}/a"), DeleteOp(f"/{n}")] for n in range(5)]
    cut = list(multis(groups))
    assert [len(operations) for operations in cut] == [4, 4, 2]
    assert [op for operations in cut for op in operations] == [op for g in groups for op in g]
    monkeypatch.setattr(chunks, "MAX_BYTES", 50)
    assert [len(operations) for operations in multis(groups)] == [2] * 5
    large = [[CreateOp("/a", bytes(300))], [CreateOp("/b", b"")]]
    assert list(multis(large)) == large
    assert list(multis([])) == []


def test_the_largest_pieces_fit_a_request():
    longest = "/brokers/topics/" + "t" * 249 + "/partitions/9999/state"
    groups = ([DeleteOp(longest), DeleteOp(longest)] for _ in range(10_000))
    assert max(map(size_of_multi, multis(groups))) < MAX_REQUEST_BYTES / 2
    assert [len(some) for some in pieces(range(501))] == [250, 250, 1]


# ---------------------------------------------------------------- requests


def test_an_explicit_assignment_is_as_bounded_as_a_count(running):
    """90,000 replicas would not fit the topic's znode, and no write that large ever returns."""
    too_many = tuple((NodeId(0),) for _ in range(90_000))
    assert create(running, NewTopic("big", -1, -1, too_many)) == [ErrorCode.INVALID_PARTITIONS]
    assert create(running, NewTopic("after", 1, 1)) == [NONE]
    assert len(running.events(EventKind.CONTROLLER_ELECTED)) == 1


@pytest.fixture(params=[1, 2, 100])
def topics_per_step(request, monkeypatch):
    monkeypatch.setattr(topic_requests, "TOPICS_PER_STEP", request.param)


@pytest.mark.usefixtures("topics_per_step")
def test_one_request_creates_a_bounded_number_of_partitions(running, monkeypatch):
    monkeypatch.setattr(topic_plans, "MAX_PARTITION_COUNT", 10)
    topics = [NewTopic("a", 6, 1), NewTopic("b", 6, 1), NewTopic("c", 4, 1)]
    assert create(running, *topics) == [NONE, ErrorCode.POLICY_VIOLATION, NONE]


def test_a_request_refused_for_its_count_is_not_computed_first(running, monkeypatch):
    """Thousands of topics of 10,000 partitions fit a request: assigning them takes minutes."""
    assigned = []
    real = topic_plans.assign_replicas

    def assign(brokers, partition_count, *more):
        assigned.append(partition_count)
        return real(brokers, partition_count, *more)

    monkeypatch.setattr(topic_plans, "assign_replicas", assign)
    topics = [NewTopic(f"t{number}", 6_000, 1) for number in range(9)]
    refused = [ErrorCode.POLICY_VIOLATION] * 8
    assert create(running, *topics, validate_only=True) == [NONE, *refused]
    assert assigned == [6_000]


@pytest.mark.usefixtures("topics_per_step")
def test_the_cluster_has_a_bounded_number_of_partitions(cluster):
    cluster.start_broker(0)
    cluster.start_controller(max_partitions=5)
    cluster.until_failed_over()
    assert create(cluster, NewTopic("a", 3, 1)) == [NONE]
    assert create(cluster, NewTopic("b", 3, 1)) == [ErrorCode.POLICY_VIOLATION]
    assert create(cluster, NewTopic("b", 1, 1), NewTopic("c", 1, 1), NewTopic("d", 1, 1)) == [
        NONE,
        NONE,
        ErrorCode.POLICY_VIOLATION,
    ]
    assert delete(cluster, "a") == [NONE]
    assert create(cluster, NewTopic("d", 3, 1)) == [NONE]


def test_a_configuration_that_would_fit_no_znode_is_refused(running):
    padded = " " * MAX_REQUEST_BYTES + "5"
    topic = NewTopic("t", 1, 1, (), (("retention.ms", padded),))
    assert create(running, topic) == [ErrorCode.INVALID_CONFIG]
    assert running.data(znodes.topic_path("t")) is None
    assert create(running, NewTopic("t", 1, 1)) == [NONE]


def test_an_assignment_that_fits_no_znode_is_refused(running, monkeypatch):
    monkeypatch.setattr(topic_requests, "MAX_REQUEST_BYTES", 300)
    assert create(running, NewTopic("t", 20, 3)) == [ErrorCode.POLICY_VIOLATION]
    assert running.data(znodes.topic_config_path("t")) is None


def test_a_request_with_too_many_topics_is_refused_as_a_whole_and_traced_once(running):
    names = tuple(f"t{number}" for number in range(topic_plans.MAX_TOPIC_COUNT + 1))
    assert set(delete(running, *names)) == {ErrorCode.POLICY_VIOLATION}
    topics = tuple(NewTopic(name, 1, 1) for name in names)
    assert set(create(running, *topics)) == {ErrorCode.POLICY_VIOLATION}
    assert len(running.events(EventKind.REQUEST_REFUSED)) == 2


# ---------------------------------------------------------------- creation, a step at a time


def test_a_large_topic_comes_up_in_steps_with_commands_in_pieces(running, monkeypatch):
    monkeypatch.setattr(chunks, "PARTITIONS_PER_STEP", 3)
    monkeypatch.setattr(chunks, "MAX_OPERATIONS", 4)
    assert create(running, NewTopic("t", 8, 3)) == [NONE]
    for number in range(8):
        assert running.state("t", number).leader >= 0
    running.settle()
    for broker in running.brokers.values():
        assert len(broker.leaderships()) == 8
        assert max(len(request.partitions) for request in broker.heard(LeaderAndIsrRequest)) == 3


def test_a_creation_whose_replies_are_lost_is_recognised_as_ones_own(running):
    running.zookeeper.lose_replies("controller-1000", 6)
    assert create(running, NewTopic("t", 4, 3)) == [NONE]
    assert {running.state("t", number).leader_epoch for number in range(4)} == {0}
    assert not running.events(EventKind.WRITE_CONFLICTED)


def test_a_state_that_another_creates_meanwhile_is_taken_as_it_is(running):
    path = znodes.partition_state_path(TopicPartition("t", 1))
    other = b'{"version":1,"leader":-1,"leader_epoch":7,"controller_epoch":1,"isr":[2]}'
    running.before_multi(path, lambda: running.put(path, other))
    running.create_topic("t", (0, 1), (1, 2), (2, 0))
    assert [running.state("t", n).leader_epoch for n in range(3)] == [0, 8, 0]
    assert running.state("t", 1).leader == 2


# ---------------------------------------------------------------- deletion, a step at a time


def make_store(cluster, session):
    points = FailPoints(cluster._operator, cluster.trace, lambda: None, ())
    return ControllerStore(session, cluster._operator, cluster.trace, 10, 1_000, None, points)


def put_znodes(cluster, topic, partition_count):
    """Write a topic's znodes with as few requests as there may be."""

    async def write(session):
        for path in (znodes.TOPICS, znodes.DELETE_TOPICS, znodes.TOPIC_CONFIGS):
            await session.ensure_path(path)
        await session.create(znodes.topic_path(topic), b"{}")
        await session.create(znodes.topic_config_path(topic), b"{}")
        await session.create(znodes.delete_topic_path(topic), b"")
        await session.create(znodes.partitions_path(topic), b"")
        partitions = [TopicPartition(topic, number) for number in range(partition_count)]
        groups = (
            [
                CreateOp(znodes.partition_path(at), b""),
                CreateOp(znodes.partition_state_path(at), b"{}"),
            ]
            for at in partitions
        )
        for operations in multis(groups):
            await session.multi(operations)

    cluster.do(write)


def below(cluster, topic):
    paths = cluster.zookeeper.dump()
    return [path for path in paths if f"/{topic}/" in f"{path}/"]


def test_a_topic_is_removed_though_its_znodes_do_not_fit_one_request(cluster):
    topic = "t" * 249
    put_znodes(cluster, topic, 1_740)
    paths = below(cluster, topic)
    assert size_of_multi([DeleteOp(path) for path in paths]) > MAX_REQUEST_BYTES
    cluster.do(lambda session: remove_topic(make_store(cluster, session), topic))
    assert below(cluster, topic) == []


@pytest.mark.parametrize("lost", range(4))
def test_a_removal_whose_replies_are_lost_goes_on(cluster, lost, monkeypatch):
    monkeypatch.setattr(chunks, "MAX_OPERATIONS", 4)
    put_znodes(cluster, "t", 5)
    odd = (
        znodes.topic_config_path("t") + "/odd",
        znodes.partition_path(P0) + "/odd",
        znodes.partitions_path("t") + "/odd",
    )
    for path in odd:
        cluster.write(path, b"")
    cluster.delete(znodes.partition_state_path(TopicPartition("t", 3)))
    cluster.zookeeper.lose_replies("operator", lost)
    cluster.do(lambda session: remove_topic(make_store(cluster, session), "t"))
    assert below(cluster, "t") == []


def test_a_removal_ends_though_znodes_are_created_below_it_again_and_again(cluster):
    put_znodes(cluster, "t", 1)

    class Busy:
        """Writes below the topic before each multi that would remove it."""

        def __init__(self, session):
            self._session = session

        def __getattr__(self, name):
            return getattr(self._session, name)

        async def multi(self, operations):
            if operations[-1].path == znodes.delete_topic_path("t"):
                await self._session.create(f"{znodes.topic_path('t')}/more", b"", sequential=True)
            return await self._session.multi(operations)

    async def remove(session):
        with pytest.raises(NotEmpty):
            await remove_topic(make_store(cluster, Busy(session)), "t")

    cluster.do(remove)
    assert cluster.data(znodes.delete_topic_path("t")) is not None


@pytest.mark.parametrize("after", [znodes.partition_path(P0), znodes.topic_path("t")])
def test_a_deletion_that_a_dying_controller_leaves_half_done_is_completed(running, after):
    running.start_controller(1001)
    running.settle()
    create(running, NewTopic("t", 3, 3))

    async def die():
        running.expire_session(1000)

    running.before_multi(after, die)
    running.ask_later(DeleteTopicsRequest(("t",)), [])
    running.until(lambda: len(running.events(EventKind.CONTROLLER_ELECTED)) == 2, "the next")
    running.until(lambda: running.events(EventKind.TOPIC_DELETED), "the deletion")
    running.settle()
    assert below(running, "t") == []
    again = running.ask(CreateTopicsRequest((NewTopic("t", 1, 1),)), controller_id=1001)
    assert [result.error for result in again.results] == [NONE]


def test_a_large_deletion_tells_each_broker_in_pieces(running, monkeypatch):
    monkeypatch.setattr(chunks, "PARTITIONS_PER_STEP", 3)
    create(running, NewTopic("t", 8, 3))
    assert delete(running, "t") == [NONE]
    for broker in running.brokers.values():
        stops = broker.heard(StopReplicaRequest)
        assert max(len(request.partitions) for request in stops) == 3


# ---------------------------------------------------------------- writes that keep failing


def test_patience_ends_after_enough_attempts_and_enough_time(cluster):
    runtime = cluster._operator

    async def try_for(give_up_ms):
        patience = Patience(runtime, 10, give_up_ms)
        try:
            while True:
                await patience.lost("set /x")
        except GaveUp as fault:
            return str(fault)

    text = "set /x: lost its connection {} times in {} ms"
    assert cluster.do(lambda _: try_for(1)) == text.format(GIVE_UP_ATTEMPTS, 90)
    assert cluster.do(lambda _: try_for(1_000)) == text.format(101, 1_000)


def test_a_deletion_that_fails_is_put_aside_and_holds_nothing_else_up(running):
    create(running, NewTopic("bad", 1, 3), NewTopic("good", 1, 3))
    running.lost_paths.add(znodes.topic_path("bad"))
    results = running.ask(DeleteTopicsRequest(("bad", "good"), timeout_ms=39_000)).results
    assert [result.error for result in results] == [ErrorCode.UNKNOWN_SERVER_ERROR, NONE]
    assert "failed" in results[0].message
    (failed,) = running.events(EventKind.DELETION_FAILED)
    assert failed.topic == "bad"
    assert znodes.topic_path("bad") in failed.detail["reason"]
    assert dict(running.active().snapshot().counters)["deletions_failed"] == 1
    assert create(running, NewTopic("after", 1, 1)) == [NONE]
    assert len(running.events(EventKind.CONTROLLER_ELECTED)) == 1
    assert running.data(znodes.delete_topic_path("bad")) is not None
    # The next controller tries once, and is not held up either.
    running.expire_session()
    running.until(
        lambda: len(running.events(EventKind.DELETION_FAILED)) == 2, "the next term's try", 40_000
    )
    running.until_failed_over()
    assert create(running, NewTopic("later", 1, 1)) == [NONE]
    # Asked for again, it is tried again.
    running.lost_paths.clear()
    assert delete(running, "bad") == [NONE]
    assert below(running, "bad") == []


def test_a_deletion_that_a_live_brokers_disk_refuses_is_tried_again_after_a_while(running):
    running.create_topic("t", (0, 1))
    running.brokers[1].refused[P0] = ErrorCode.KAFKA_STORAGE_ERROR
    assert running.delete_topic("t").results[0].error is NONE
    assert running.data(znodes.topic_path("t")) is not None
    asked = len(running.brokers[1].heard(StopReplicaRequest))
    running.settle(25_000)
    assert running.data(znodes.topic_path("t")) is not None
    assert len(running.brokers[1].heard(StopReplicaRequest)) - asked == 4, "twice, in two steps"
    assert len(running.brokers[0].heard(StopReplicaRequest)) == 2, "who has confirmed is left alone"
    running.brokers[1].refused.clear()
    running.until(lambda: running.events(EventKind.TOPIC_DELETED), "the deletion")
    assert below(running, "t") == []


def test_an_operation_that_fails_again_and_again_ends_the_session_and_another_controller_tries(
    running,
):
    running.create_topic("t", (0, 1))
    running.start_controller(1001)
    running.settle()
    path = znodes.partition_state_path(P0)
    running.lost_paths.add(path)
    running.brokers[0].die()
    running.until(lambda: running.events(EventKind.SESSION_GIVEN_UP), "the end", 60_000)
    assert path in running.events(EventKind.SESSION_GIVEN_UP)[0].detail["operation"]
    running.until(
        lambda: running.controllers[1001].snapshot().active_controller, "the other's turn"
    )
    running.lost_paths.clear()
    running.until(lambda: running.state("t").leader == 1, "the election")
    running.settle(10_000)
    assert len(running.events(EventKind.SESSION_GIVEN_UP)) == 1
    assert running.controllers[1000].snapshot().controller_id == 1001


def test_a_controller_that_is_alone_takes_office_again_after_its_pause(running):
    running.create_topic("t", (0, 1))
    running.lost_paths.add(znodes.partition_state_path(P0))
    running.brokers[0].die()
    running.until(lambda: running.events(EventKind.SESSION_GIVEN_UP), "the end", 60_000)
    assert running.active() is None
    running.lost_paths.clear()
    running.until(lambda: running.state("t").leader == 1, "the election")


def test_an_election_that_fails_again_and_again_ends_the_session(cluster):
    cluster.lost_paths.add(znodes.CONTROLLER)
    cluster.start_controller()
    cluster.until(lambda: cluster.events(EventKind.SESSION_GIVEN_UP), "the end", 60_000)
    cluster.lost_paths.clear()
    cluster.until_failed_over()


def test_a_lost_connection_now_and_then_costs_no_session(running):
    for number in range(3 * GIVE_UP_ATTEMPTS):
        running.zookeeper.lose_replies("controller-1000", 1)
        assert create(running, NewTopic(f"t{number}", 1, 1)) == [NONE]
    assert not running.events(EventKind.SESSION_GIVEN_UP, EventKind.CONTROLLER_RESIGNED)


# ---------------------------------------------------------------- commands


def test_a_command_that_a_broker_cannot_read_is_dropped_and_traced_and_others_follow(running):
    stuck = running.brokers[1].endpoints.control
    running.is_unread = lambda at, request: (
        at == stuck
        and isinstance(request, LeaderAndIsrRequest)
        and any(item.topic_partition.topic == "bad" for item in request.partitions)
    )
    late = running.ask(CreateTopicsRequest((NewTopic("bad", -1, -1, ((1,),)),), timeout_ms=1_000))
    assert late.results[0].error is ErrorCode.REQUEST_TIMED_OUT
    (dropped,) = running.events(EventKind.COMMAND_DROPPED)
    assert (dropped.detail["broker"], dropped.detail["reason"]) == (1, "INVALID_ARGUMENT")
    assert running.create_topic("good", (1,)).results[0].error is NONE
    assert TopicPartition("good", 0) in running.brokers[1].leaderships()


def test_a_deletion_whose_command_a_broker_cannot_read_halts(running):
    running.create_topic("t", (0, 1))
    running.is_unread = lambda at, request: isinstance(request, StopReplicaRequest)
    assert running.delete_topic("t").results[0].error is NONE
    assert running.events(EventKind.COMMAND_DROPPED)
    assert running.data(znodes.topic_path("t")) is not None
    assert running.create_topic("u", (0, 1)).results[0].error is NONE


def test_metadata_that_no_broker_can_read_blocks_no_channel(running):
    running.is_unread = lambda at, request: isinstance(request, UpdateMetadataRequest)
    assert running.create_topic("t", (0, 1, 2)).results[0].error is NONE
    running.settle(2_000)
    assert running.active().snapshot().counters[1] == ("commands_waiting", 0)
