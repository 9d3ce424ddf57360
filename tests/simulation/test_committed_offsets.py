"""Committed offsets outlive their coordinators; the oracle finds each planted mistake."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_chaos.plan import PlanTopology
from highwater_checker.catalogue.explain import explain
from highwater_checker.history import OperationType
from highwater_checker.invariants.committed_offsets import check_committed_offsets
from highwater_checker.invariants.coordinators import check_coordinators
from highwater_client.recorder import HistoryRecorder
from highwater_core.admin_messages import ElectionType, ReassignmentItem
from highwater_core.config import MayBreak
from highwater_core.errors import ErrorCode
from highwater_core.events import TraceEvent
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_core.messages import StopReplicaPartition, StopReplicaRequest
from highwater_planted import planted
from highwater_simulator.liveness import Core, missing
from highwater_simulator.network import Plane
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.oracle.violation import InvariantBroken
from highwater_simulator.world import World
from tests.support.committer import OffsetCommitter
from tests.support.failover_story import ORDERS, create_orders

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
ROW_22 = {"I14": MayBreak((22,))}
SETTINGS = {"offsets_topic_partitions": 1, "replica_fetch_wait_max_ms": 100}


class GroupStory:
    """A cluster with the oracle, and one client that commits and fetches the offset of orders-0."""

    def __init__(self) -> None:
        self.world = World(1, PlanTopology(broker_settings=SETTINGS))
        self.oracle = Oracle(self.world)
        client = self.world.client("client-0")
        self.client = client
        self.recorder = HistoryRecorder(client.runtime.now_ns, "c0")
        self.committer = OffsetCommitter(
            client.runtime, client.transport, client.bootstrap, "g", self.recorder
        )

    def run(self, story: Callable[[GroupStory], Coroutine[Any, Any, None]]) -> None:
        """Run the story; the checker judges its traces and its history as well."""
        try:
            self.world.run(story(self), 900_000)
            events = self.events()
            assert check_coordinators(events).findings == ()
            assert explain("I14", ORDERS.topic, ORDERS.partition, -1, events, ROW_22) == ()
            checked = check_committed_offsets(self.recorder.events)
            assert (checked.findings, checked.examined > 0) == ((), True)
        finally:
            self.world.close()

    def events(self) -> list[TraceEvent]:
        traced = [each.event for each in self.world.trace.entries]
        return [event for event in traced if isinstance(event, TraceEvent)]

    async def begin(self) -> None:
        self.world.start_all()
        await create_orders(self.world, self.client)
        await self.commit(1)
        await self.replicated()

    async def commit(self, offset: int) -> None:
        """Commit the offset, again and again until it is acknowledged."""
        for _ in range(200):
            if await self.committer.commit(ORDERS, offset) is OperationType.OK:
                return
            await self.world.sleep(100)
        raise AssertionError(f"offset {offset} is not acknowledged: {self.recorder.events[-1]}")

    async def fetch(self) -> int:
        """Return the committed offset, once a coordinator answers with one."""
        for _ in range(200):
            offset = await self.committer.fetch(ORDERS)
            if offset is not None:
                return offset
            await self.world.sleep(100)
        raise AssertionError(f"nobody tells the offset: {self.recorder.events[-1]}")

    async def replicated(self) -> None:
        await self.world.eventually(
            lambda: self.world.is_replicated(OFFSETS, self.world.brokers), 60_000, "all are in sync"
        )

    def coordinator(self) -> int:
        state = self.world.partition_state(OFFSETS)
        assert state is not None
        return int(state.leader)

    async def move(self) -> None:
        """Kill the coordinator, wait for the next one, and start the killed one again."""
        before = self.coordinator()
        self.world.kill(before)
        await self.world.eventually(
            lambda: self.coordinator() not in (before, -1), 60_000, "another coordinates"
        )
        self.world.start(before)


async def offsets_move(story: GroupStory) -> None:
    await story.begin()
    for offset in (5, 3, 9):  # a consumer may go back: the last commit counts, not the largest
        await story.commit(offset)
        await story.move()
        assert await story.fetch() == offset
        await story.replicated()
    brokers = tuple(story.world.brokers)

    def all_is_there() -> bool:
        core = Core(brokers, tuple(story.world.controllers))
        return not list(missing(story.world, core))

    await story.world.eventually(all_is_there, 60_000, "nothing is missing")


def test_committed_offsets_outlive_their_coordinators() -> None:
    GroupStory().run(offsets_move)


def test_the_coordinator_that_is_stopped_in_good_order_hands_over() -> None:
    async def stopped(story: GroupStory) -> None:
        await story.begin()
        await story.commit(5)
        before = story.coordinator()
        story.world.request_stop(before)
        await story.world.eventually(
            lambda: story.coordinator() not in (before, -1), 60_000, "another coordinates"
        )
        assert await story.fetch() == 5

    GroupStory().run(stopped)


def test_the_offsets_of_a_deleted_topic_are_none_of_the_next_one_of_its_name() -> None:
    """The checker takes histories without deleted offsets: the fetches are not in them."""

    async def deleted(story: GroupStory) -> None:
        await story.begin()
        await story.commit(5)
        assert await story.fetch() == 5
        assert await story.client.delete_topic(ORDERS.topic, 60_000) is ErrorCode.NONE
        await create_orders(story.world, story.client)
        story.committer = OffsetCommitter(
            story.client.runtime,
            story.client.transport,
            story.client.bootstrap,
            "g",
            HistoryRecorder(story.client.runtime.now_ns, "c1"),
        )
        assert await story.fetch() == -1
        await story.move()
        assert await story.fetch() == -1
        await story.commit(2)
        assert await story.fetch() == 2

    GroupStory().run(deleted)


async def high_watermark_lags(story: GroupStory) -> None:
    """The coordinator dies just after its acknowledgement: its successor's high watermark lags."""
    await story.begin()
    for offset in range(10, 20):
        await story.commit(offset)
        await story.move()
        assert await story.fetch() == offset
        await story.replicated()


async def deposed_while_it_loads(story: GroupStory) -> None:
    """The coordinator is deposed while its load waits for its records to be committed."""
    await story.begin()
    world = story.world
    first = story.coordinator()
    second, third = (broker for broker in world.brokers if broker != first)
    await story.commit(5)
    for other in (first, third):  # the second broker does not learn that the offset is committed
        names = world.brokers[other].name, world.brokers[second].name
        world.network.cut_both_ways(*names, Plane.REPLICATION)
    await lead(story, second)
    for _ in range(2):  # the first request goes to the former leader
        assert await story.committer.fetch(ORDERS) is None
    assert story.recorder.events[-1].error == "COORDINATOR_LOAD_IN_PROGRESS"
    await lead(story, third)
    world.network.heal_all()
    await world.sleep(12_000)  # longer than a load waits before it looks again
    assert await story.fetch() == 5


async def lead(story: GroupStory, broker: int) -> None:
    """Have the broker preferred and elected."""
    others = tuple(NodeId(each) for each in story.world.brokers if each != broker)
    order = (NodeId(broker), *others)
    await story.client.alter_reassignments((ReassignmentItem(OFFSETS, order),), 60_000)
    await story.client.elect_leaders(ElectionType.PREFERRED, (OFFSETS,), 60_000)
    await story.world.eventually(
        lambda: story.coordinator() == broker, 60_000, f"broker {broker} leads"
    )


def test_a_load_that_nobody_wants_any_more_leaves_nothing() -> None:
    GroupStory().run(deposed_while_it_loads)


async def fetched_while_it_is_appended(story: GroupStory) -> None:
    """The coordinator's followers are cut off, so that the log cannot commit its record."""
    await story.begin()
    cut_followers_off(story)
    story.client.runtime.scope("commits").spawn("Commit", story.committer.commit(ORDERS, 7))
    await story.world.sleep(200)
    assert await story.fetch() == 1


def cut_followers_off(story: GroupStory) -> int:
    """Cut the coordinator off from the other brokers, and return it."""
    leader = story.coordinator()
    for other in story.world.brokers:
        if other != leader:
            names = story.world.brokers[leader].name, story.world.brokers[other].name
            story.world.network.cut_both_ways(*names, Plane.REPLICATION)
    return leader


async def deposed_while_it_appends(story: GroupStory) -> None:
    await story.begin()
    leader = cut_followers_off(story)
    outcomes: list[OperationType] = []

    async def commit() -> None:
        outcomes.append(await story.committer.commit(ORDERS, 7))

    story.client.runtime.scope("commits").spawn("Commit", commit())
    await story.world.sleep(100)
    await lead(story, next(each for each in story.world.brokers if each != leader))
    await story.world.eventually(lambda: bool(outcomes), 60_000, "the commit is answered")
    assert outcomes == [OperationType.INFO]
    story.world.network.heal_all()
    assert await story.fetch() == 1


@pytest.mark.parametrize("story", [fetched_while_it_is_appended, deposed_while_it_appends])
def test_an_uncommitted_offset_is_neither_fetched_nor_acknowledged(
    story: Callable[[GroupStory], Coroutine[Any, Any, None]],
) -> None:
    GroupStory().run(story)


async def late_stop(story: GroupStory) -> None:
    """A StopReplica with an old leader epoch reaches the leader."""
    await story.begin()
    await story.move()
    assert await story.fetch() == 1
    leader = story.coordinator()
    node, hosted = story.world.broker_node(leader), story.world.hosted(leader, OFFSETS)
    assert node is not None
    assert hosted is not None
    request = StopReplicaRequest(
        controller_id=NodeId(story.world.active_controller() or 0),
        controller_epoch=hosted.controller_epoch,
        broker_epoch=node._registration.broker_epoch,
        partitions=(StopReplicaPartition(OFFSETS, False, type(hosted.leader_epoch)(0)),),
    )
    await node.replicas.carry_out(request)
    await story.world.sleep(1_000)
    assert await story.fetch() == 1


def test_a_late_stop_unloads_nothing() -> None:
    GroupStory().run(late_stop)


@pytest.mark.parametrize(
    ("bug", "story", "says"),
    [
        ("offset_commit_acknowledged_on_append", offsets_move, "no such record is committed"),
        ("group_load_stops_early", high_watermark_lags, "acknowledged or committed since"),
        ("group_load_after_unload", deposed_while_it_loads, "of a partition that it has not"),
        ("offset_goes_back", offsets_move, "acknowledged or committed since"),
        ("offset_shown_before_commit", fetched_while_it_is_appended, "told group 'g' offset 7"),
        ("deposed_coordinator_acknowledges", deposed_while_it_appends, "no such record"),
        ("late_stop_unloads_groups", late_stop, "coordinates since epoch None"),
    ],
)
def test_the_oracle_sees_the_mistake(
    bug: str, story: Callable[[GroupStory], Coroutine[Any, Any, None]], says: str
) -> None:
    with planted(bug), pytest.raises(InvariantBroken) as broken:
        GroupStory().run(story)
    assert broken.value.violation.invariant == "I14"
    assert says in broken.value.violation.message


@pytest.mark.parametrize(
    ("bug", "story"),
    [("group_load_after_unload", deposed_while_it_loads), ("late_stop_unloads_groups", late_stop)],
)
def test_a_coordinator_out_of_order_shows_row_22(
    bug: str, story: Callable[[GroupStory], Coroutine[Any, Any, None]]
) -> None:
    told = GroupStory()
    with planted(bug), pytest.raises(InvariantBroken):
        told.run(story)
    (row,) = explain("I14", OFFSETS.topic, OFFSETS.partition, -1, told.events(), ROW_22)
    assert row.ids[0] == "KAFKA-2841"
