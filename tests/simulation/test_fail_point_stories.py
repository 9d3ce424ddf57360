"""A cluster reaches every fail-point of its nodes, and a node may wait or die there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_chaos.plan import Network
from highwater_client.recorder import HistoryRecorder
from highwater_core.admin_messages import ReassignmentItem
from highwater_core.config import PRESETS, Preset, Truncation
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.fail_points import BROKER_FAIL_POINTS, CONTROLLER_FAIL_POINTS, FailPoint
from highwater_core.ids import Endpoint, NodeId, node_name
from highwater_core.messages import (
    FailPointAction,
    InspectRequest,
    NodeSnapshot,
    SetFailPointRequest,
    SetFailPointResponse,
)
from highwater_simulator.calls import SimulatedControlPlane
from highwater_simulator.carriage import CONTROL_BY_CODEC
from highwater_simulator.world import CONTROL_PORT
from highwater_wire.kafka.config_messages import (
    AlteredResource,
    ConfigAlteration,
    ConfigOperationType,
    ConfigResourceType,
)
from tests.support.committer import OffsetCommitter
from tests.support.failover_story import ORDERS
from tests.support.presets import each_preset

Story = Callable[[Any], Coroutine[Any, Any, None]]


SESSION_TIMEOUT_MS, PAST_SESSION_MS = 1_500, 2_500
QUICK = {
    "broker_settings": {
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "high_watermark_checkpoint_interval_ms": 1_000,
        "log_flush_interval_ms": 1_000,
        "offsets_topic_partitions": 1,
    },
    "controller_settings": {"session_timeout_ms": SESSION_TIMEOUT_MS},
}


Cluster = Any
"""conftest.Cluster."""


class Armed:
    """A cluster whose nodes, and their next incarnations, have fail-points armed."""

    def __init__(self, c: Cluster, action: FailPointAction, *points: FailPoint) -> None:
        self.c = c
        self._action = action
        self._points = points

    def arm(self, node_id: int, action: FailPointAction) -> None:
        node = self.c.world.handle(node_id).node
        own = BROKER_FAIL_POINTS if node_id in self.c.world.brokers else CONTROLLER_FAIL_POINTS
        assert node is not None
        for point in self._points:
            error = node.fail_points.arm(point, action, count=1, delay_ms=400)
            assert (error is ErrorCode.NONE) == (point in own)

    def arm_all(self, action: FailPointAction) -> None:
        for node_id in (*self.c.world.controllers, *self.c.world.brokers):
            if self.c.world.handle(node_id).is_running:
                self.arm(node_id, action)

    async def revive(self) -> None:
        """Disarm all points, start dead nodes, and wait until all records are replicated."""
        await self.c.world.sleep(PAST_SESSION_MS)
        self.arm_all(FailPointAction.OFF)
        for node_id in (*self.c.world.controllers, *self.c.world.brokers):
            if not self.c.world.handle(node_id).is_running:
                self.c.world.start(node_id)
        await self.c.full_isr()

    async def end(self, node_id: int, how: Callable[[int], None]) -> None:
        """End the node, write without it, and start it again, armed from its first step on."""
        world = self.c.world
        self.arm_all(self._action)
        if world.handle(node_id).is_running:
            how(node_id)
        await self.c.send(2)
        await world.sleep(PAST_SESSION_MS)
        await world.eventually(lambda: not world.handle(node_id).is_running, 30_000, "its end")
        world.start(node_id)
        self.arm(node_id, self._action)
        await self.c.send(2)
        await self.revive()

    async def crash_a_leader(self) -> None:
        await self.end(self.c.leader(), self.c.world.kill)

    async def administer(self) -> None:
        """Change a configuration and the order of a partition's replicas; both may fail."""
        self.arm_all(self._action)
        change = ConfigAlteration("retention.ms", ConfigOperationType.SET, "86400000")
        topic = AlteredResource(ConfigResourceType.TOPIC, ORDERS.topic, (change,))
        await self.c.client.alter_configs((topic,), 5_000)
        moved = ReassignmentItem(ORDERS, (NodeId(2), NodeId(1), NodeId(0)))
        await self.c.client.alter_reassignments((moved,), 5_000)
        await self.revive()

    async def stop_a_leader_and_crash_the_controller(self) -> None:
        await self.administer()
        world = self.c.world
        await self.end(self.c.leader(), world.request_stop)
        await world.eventually(
            lambda: world.active_controller() is not None, 20_000, "an active controller"
        )
        await self.end(self.c.controller(), world.kill)

    async def add_partitions(self) -> None:
        """Have the controllers write the topic's znode, where they may wait or die."""
        self.arm_all(self._action)
        await self.c.client.create_partitions(ORDERS.topic, 3, 5_000)
        await self.revive()

    async def coordinate(self) -> None:
        """Have a broker become a group's coordinator, and load its groups."""
        client = self.c.client
        recorder = HistoryRecorder(client.runtime.now_ns, "c0")
        committer = OffsetCommitter(
            client.runtime, client.transport, client.bootstrap, "g", recorder
        )
        self.arm_all(self._action)
        for _ in range(10):
            await committer.commit(ORDERS, 1)
            await self.c.world.sleep(200)
        await self.revive()


TOPIC_WRITES = (FailPoint.BEFORE_TOPIC_WRITE, FailPoint.AFTER_TOPIC_WRITE)


def hit(cluster: Cluster) -> list[str]:
    found = cluster.world.trace.events(EventKind.FAIL_POINT_HIT)
    return sorted({event.detail["name"] for event in found})


@pytest.mark.parametrize("preset", each_preset())
def test_every_seam_is_reached_and_a_wait_there_breaks_no_promise(
    make_cluster: Callable[..., Cluster], preset: Preset
) -> None:
    cluster = make_cluster(preset=preset, **QUICK)

    async def story(c: Cluster) -> None:
        await c.begin()
        armed = Armed(c, FailPointAction.DELAY, *FailPoint)
        await armed.crash_a_leader()
        await armed.stop_a_leader_and_crash_the_controller()
        await armed.add_partitions()
        await armed.coordinate()

    cluster.run(story)
    asks_no_leader = PRESETS[preset].truncation is Truncation.HIGH_WATERMARK
    unreached = {FailPoint.BEFORE_TRUNCATION} if asks_no_leader else set()
    assert hit(cluster) == sorted(set(FailPoint) - unreached)


@pytest.mark.parametrize("point", list(FailPoint))
def test_nodes_that_die_at_a_seam_lose_nothing(
    make_cluster: Callable[..., Cluster], point: FailPoint
) -> None:
    cluster = make_cluster(**QUICK)

    async def story(c: Cluster) -> None:
        await c.begin()
        armed = Armed(c, FailPointAction.EXIT, point)
        if point is FailPoint.BEFORE_GROUP_LOAD:
            await armed.coordinate()
        elif point in BROKER_FAIL_POINTS:
            await armed.crash_a_leader()
        elif point in TOPIC_WRITES:
            await armed.add_partitions()
        else:
            await armed.stop_a_leader_and_crash_the_controller()

    cluster.run(story)
    assert hit(cluster) == [point]


def test_a_node_that_dies_at_a_seam_does_nothing_after_it(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster(**QUICK)

    async def story(c: Cluster) -> None:
        await c.begin()
        node = c.world.handle(0).node
        assert node is not None
        node.fail_points.arm("before_high_watermark_checkpoint", FailPointAction.EXIT)
        await c.world.eventually(
            lambda: not c.world.handle(0).is_running, 20_000, "the broker's death"
        )
        c.world.start(0)
        await c.full_isr()

    cluster.run(story)
    first_life = [e for e in cluster.world.trace.events() if e.node == 0 and e.incarnation == 1]
    assert first_life[-1].kind is EventKind.FAIL_POINT_HIT


def test_fail_points_are_armed_over_the_control_plane(
    make_cluster: Callable[..., Cluster],
) -> None:
    cluster = make_cluster(links=Network(through_codecs=True), **QUICK)
    world = cluster.world
    operator = SimulatedControlPlane(
        world.kernel.runtime("operator"),
        world.network,
        world._listeners,
        Endpoint("operator", CONTROL_PORT),
        CONTROL_BY_CODEC,
    )
    answers = []

    async def story(c: Cluster) -> None:
        await c.begin()
        endpoint = Endpoint(node_name(0), CONTROL_PORT)
        for name in ("before_log_flush", "during_failover"):
            request = SetFailPointRequest(name, FailPointAction.DELAY, count=1, delay_ms=5)
            answers.append(await operator.call(endpoint, request, 1_000))
        assert isinstance(await operator.call(endpoint, InspectRequest(), 1_000), NodeSnapshot)

    cluster.run(story)
    assert answers == [
        SetFailPointResponse(ErrorCode.NONE),
        SetFailPointResponse(ErrorCode.INVALID_REQUEST),
    ]
