"""Committed offsets under random faults of brokers and links, while the offsets topic is compacted.

Several clients commit and fetch. The oracle judges every answer, and the checker the history.
"""

from __future__ import annotations

import random

import pytest

from highwater_chaos.plan import PlanTopology
from highwater_checker.history import HistoryEvent
from highwater_checker.invariants.committed_offsets import check_committed_offsets
from highwater_checker.invariants.coordinators import check_coordinators
from highwater_client.recorder import HistoryRecorder
from highwater_core.admin_messages import ElectionType, ReassignmentItem
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NodeId, TopicPartition
from highwater_core.internal_topics import OFFSETS_TOPIC
from highwater_simulator.liveness import Core, missing
from highwater_simulator.network import Plane
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.world import World
from tests.support.committer import OffsetCommitter
from tests.support.failover_story import ORDERS, create_orders

CLIENTS, GROUPS, FAULTS = 3, 2, 5
SESSION_MS = 600
SETTINGS = {
    "session_timeout_ms": SESSION_MS,
    "offsets_topic_partitions": 2,
    "offsets_topic_segment_bytes": 4_000,
    "offsets_commit_timeout_ms": 1_000,
    "log_cleaner_backoff_ms": 300,
    "log_flush_interval_ms": 300,
    "replica_lag_time_max_ms": 1_000,
    "replica_fetch_wait_max_ms": 100,
}


class RandomStory:
    """A cluster, clients that commit all the while, and faults one after another."""

    def __init__(self, seed: int) -> None:
        self.draws = random.Random(seed)  # noqa: S311
        self.world = World(
            seed,
            PlanTopology(
                broker_settings=SETTINGS, controller_settings={"session_timeout_ms": SESSION_MS}
            ),
        )
        self.oracle = Oracle(self.world)
        self.client = self.world.client("client-0")
        self.recorders: list[HistoryRecorder] = []
        self.is_over = False

    async def run(self) -> None:
        self.world.start_all()
        await create_orders(self.world, self.client)
        scope = self.client.runtime.scope("committers")
        for number in range(CLIENTS):
            scope.spawn("committer", self._commit_and_fetch(number))
        await self.world.sleep(500)
        for _ in range(FAULTS):
            await self._fault()
            await self.world.sleep(self.draws.randrange(1, 400))
            for broker, handle in self.world.brokers.items():
                if not handle.is_running:
                    self.world.start(broker)
        self.is_over = True
        core = Core(tuple(self.world.brokers), tuple(self.world.controllers))
        await self.world.eventually(
            lambda: not list(missing(self.world, core)), 60_000, "nothing is missing"
        )

    async def _commit_and_fetch(self, number: int) -> None:
        client = self.world.client(f"committer-{number}")
        recorder = HistoryRecorder(client.runtime.now_ns, f"c{number}")
        self.recorders.append(recorder)
        group = f"g{number % GROUPS}"
        committer = OffsetCommitter(
            client.runtime, client.transport, client.bootstrap, group, recorder
        )
        count = 0
        while not self.is_over:
            count += 1
            if self.draws.random() < 0.6:
                await committer.commit(ORDERS, number * 100_000 + count)
            else:
                await committer.fetch(ORDERS)
            await client.runtime.sleep(self.draws.randrange(1, 60))

    async def _fault(self) -> None:
        world = self.world
        broker = self.draws.choice(list(world.brokers))
        match self.draws.choice(["kill", "stop", "cut", "uncontrolled", "move", "move"]):
            case "kill":
                world.kill(broker)
                await world.sleep(self.draws.randrange(1, 1_500))
            case "stop":
                world.request_stop(broker)
                await world.sleep(self.draws.randrange(500, 2_500))
            case "cut":
                others = [node.name for at, node in world.brokers.items() if at != broker]
                await self._cut(broker, others, Plane.REPLICATION)
            case "uncontrolled":
                controllers = [node.name for node in world.controllers.values()]
                await self._cut(broker, controllers, Plane.CONTROL)
            case "move":
                await self._move()

    async def _cut(self, broker: int, others: list[str], plane: Plane) -> None:
        for other in others:
            self.world.network.cut_both_ways(self.world.brokers[broker].name, other, plane)
        await self.world.sleep(self.draws.randrange(1, 2_500))
        self.world.network.heal_all()

    async def _move(self) -> None:
        at = TopicPartition(OFFSETS_TOPIC, self.draws.randrange(2))
        order = list(map(NodeId, self.world.brokers))
        self.draws.shuffle(order)
        await self.client.alter_reassignments((ReassignmentItem(at, tuple(order)),), 3_000)
        await self.client.elect_leaders(ElectionType.PREFERRED, (at,), 3_000)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_committed_offset_is_lost(seed: int) -> None:
    story = RandomStory(seed)
    try:
        story.world.run(story.run(), 900_000)
    finally:
        story.world.close()
    traced = [each.event for each in story.world.trace.entries]
    events = [event for event in traced if isinstance(event, TraceEvent)]
    coordinators = check_coordinators(events)
    assert (coordinators.findings, coordinators.examined > 2) == ((), True)
    history: list[HistoryEvent] = [each for one in story.recorders for each in one.events]
    offsets = check_committed_offsets(sorted(history, key=lambda event: event.time_ns))
    assert (offsets.findings, offsets.examined > 50) == ((), True)
    kinds = {event.kind for event in events if event.topic == OFFSETS_TOPIC}
    assert EventKind.LOG_COMPACTED in kinds
