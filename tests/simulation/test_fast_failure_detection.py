"""With fast_failure_detection a broker's death is known before its session ends.

A suspicion that is wrong moves leads, and costs no record.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from highwater_chaos.plan import PlanTopology
from highwater_controller.controller_events import BrokerSuspected
from highwater_core.events import EventKind, TraceEvent
from highwater_simulator.client import SimulatedClient
from highwater_simulator.network import Plane
from highwater_simulator.world import World
from tests.support.failover_story import (
    ORDERS,
    SEND_WITHIN_MS,
    STORY_WITHIN_MS,
    create_orders,
    full_isr,
    send_records,
)
from tests.support.verification import verify

SESSION_MS = 6_000
WITHIN_MS = 1_000
"""Of a kill: an election and an acknowledgement, in virtual time."""
RECORDS = 10
Story = Callable[["Cluster"], Coroutine[Any, Any, None]]


class Cluster:
    """Three brokers, a topic that all of them hold, and a client."""

    def __init__(self, seed: int, *, is_fast: bool = True, **topology: Any) -> None:
        session = {"session_timeout_ms": SESSION_MS}
        self.world = World(
            seed,
            PlanTopology(
                toggles={"fast_failure_detection": is_fast},
                broker_settings=session | {"replica_lag_time_max_ms": SESSION_MS},
                controller_settings=session,
                **topology,
            ),
        )
        self.client: SimulatedClient = self.world.client("client-0")
        self.sent = 0

    def run(self, story: Story) -> None:
        """Run it on a cluster that has written; at its end all is healed, and nothing is lost."""

        async def whole() -> None:
            self.world.start_all()
            await create_orders(self.world, self.client)
            await self.send()
            await full_isr(self.world)
            await story(self)
            self.world.heal_all()
            for broker in self.world.brokers:
                if not self.world.handle(broker).is_running:
                    self.world.start(broker)
            await full_isr(self.world)
            await self.send()
            await full_isr(self.world)
            await self.client.read_all(ORDERS.topic, ORDERS.partition, SEND_WITHIN_MS)

        try:
            self.world.run(whole(), STORY_WITHIN_MS)
            assert verify(self.world, self.client.history, ORDERS, self.world.brokers) == []
        finally:
            self.world.close()

    async def send(self) -> None:
        await send_records(self.client, self.sent, RECORDS)
        self.sent += RECORDS

    async def sent_within_ms(self) -> int:
        """Send records, and return how long that took."""
        begun_ms = self.now_ms()
        await self.send()
        return self.now_ms() - begun_ms

    def now_ms(self) -> int:
        return self.client.runtime.now_ms()

    @property
    def leader(self) -> int:
        state = self.world.partition_state(ORDERS)
        assert state is not None
        return int(state.leader)

    @property
    def isr(self) -> tuple[int, ...]:
        state = self.world.partition_state(ORDERS)
        assert state is not None
        return tuple(map(int, state.isr))

    def traced(self, kind: EventKind) -> list[TraceEvent]:
        return list(self.world.trace.events(kind))

    @property
    def suspected(self) -> list[int]:
        return [event.detail["broker"] for event in self.traced(EventKind.BROKER_SUSPECTED)]


def test_a_killed_leader_is_replaced_before_its_session_ends() -> None:
    async def story(cluster: Cluster) -> None:
        leader = cluster.leader
        cluster.world.kill(leader)
        assert await cluster.sent_within_ms() < WITHIN_MS
        assert cluster.leader != leader
        assert leader not in cluster.isr

    cluster = Cluster(7)
    cluster.run(story)
    (suspected,) = cluster.traced(EventKind.BROKER_SUSPECTED)
    selectors = [e.detail["selector"] for e in cluster.traced(EventKind.LEADER_ELECTED)]
    assert selectors == ["initial", "suspected"]
    assert suspected.detail["why"]


def test_a_killed_follower_holds_up_no_acknowledgement() -> None:
    async def story(cluster: Cluster) -> None:
        leader, follower = cluster.leader, next(b for b in cluster.isr if b != cluster.leader)
        cluster.world.kill(follower)
        assert await cluster.sent_within_ms() < WITHIN_MS
        assert cluster.leader == leader
        assert follower not in cluster.isr

    Cluster(7).run(story)


def test_without_the_toggle_the_session_decides() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.world.kill(cluster.leader)
        assert await cluster.sent_within_ms() > SESSION_MS // 2

    cluster = Cluster(7, is_fast=False)
    cluster.run(story)
    assert cluster.suspected == []


@pytest.mark.parametrize("is_one_way", [True, False], ids=["one way", "both ways"])
def test_a_leader_that_no_controller_reaches_is_not_suspected(is_one_way: bool) -> None:
    async def story(cluster: Cluster) -> None:
        leader, network = cluster.leader, cluster.world.network
        for controller in cluster.world.controllers:
            network.cut(f"controller-{controller}", f"broker-{leader}", Plane.CONTROL)
            if not is_one_way:
                network.cut(f"broker-{leader}", f"controller-{controller}", Plane.CONTROL)
        await cluster.client.runtime.sleep(4 * SESSION_MS)
        assert cluster.leader == leader

    cluster = Cluster(7)
    cluster.run(story)
    assert cluster.suspected == []


def test_a_paused_leader_is_not_suspected() -> None:
    async def story(cluster: Cluster) -> None:
        leader = cluster.leader
        cluster.world.pause(leader)
        await cluster.client.runtime.sleep(SESSION_MS // 2)
        cluster.world.resume(leader)
        assert cluster.leader == leader

    cluster = Cluster(7)
    cluster.run(story)
    assert cluster.suspected == []


def test_a_reset_connection_of_a_broker_that_answers_is_no_suspicion() -> None:
    async def story(cluster: Cluster) -> None:
        leader, active = cluster.leader, cluster.world.active_controller()
        for _ in range(5):
            assert cluster.world.network.reset_connections(
                f"controller-{active}", f"broker-{leader}", Plane.CONTROL
            )
            await cluster.client.runtime.sleep(500)
        assert cluster.leader == leader

    cluster = Cluster(7)
    cluster.run(story)
    assert cluster.suspected == []


def test_a_controller_whose_connections_all_break_takes_no_lead() -> None:
    async def story(cluster: Cluster) -> None:
        leader, network = cluster.leader, cluster.world.network
        node = f"controller-{cluster.world.active_controller()}"
        for broker in cluster.world.brokers:
            network.cut(node, f"broker-{broker}", Plane.CONTROL)
        for broker in cluster.world.brokers:
            network.reset_connections(node, f"broker-{broker}", Plane.CONTROL)
        await cluster.client.runtime.sleep(4 * SESSION_MS)
        assert cluster.leader == leader
        assert len(cluster.isr) == 3

    cluster = Cluster(7)
    cluster.run(story)
    assert cluster.suspected == []


def test_a_suspicion_of_a_broker_that_answered_before_it_is_handled_does_nothing() -> None:
    async def story(cluster: Cluster) -> None:
        leader, active = cluster.leader, cluster.world.active_controller()
        assert active is not None
        node = cluster.world.handle(active).node
        controller = node._controller
        channel = controller.term.channels.find(leader)
        assert channel.watch is not None
        for is_suspected in (False, True):
            channel.watch.is_suspected = is_suspected
            registration = channel.broker
            controller.enqueue(BrokerSuspected(leader, registration.broker_epoch, "it broke"))
            await cluster.client.runtime.sleep(500)
            assert (cluster.leader != leader) == is_suspected

    Cluster(7).run(story)


@pytest.mark.parametrize("seed", range(5))
def test_a_wrong_suspicion_moves_the_lead_and_loses_nothing(seed: int) -> None:
    """The connection breaks, and the next one is too slow: the old leader lives and hears of it."""

    async def story(cluster: Cluster) -> None:
        leader, active = cluster.leader, cluster.world.active_controller()
        node = f"controller-{active}"
        cluster.world.network.slow_down(node, f"broker-{leader}", Plane.CONTROL, 800, 0)
        cluster.world.network.reset_connections(node, f"broker-{leader}", Plane.CONTROL)
        await cluster.world.eventually(
            lambda: cluster.leader != leader, SESSION_MS // 2, "another leader"
        )
        await cluster.send()
        cluster.world.heal_all()
        await full_isr(cluster.world)
        assert cluster.world.handle(leader).is_running

    cluster = Cluster(seed)
    cluster.run(story)
    assert cluster.suspected


def test_the_last_isr_member_keeps_its_lead_until_its_session_ends() -> None:
    async def story(cluster: Cluster) -> None:
        leader = cluster.leader
        for broker in cluster.world.brokers:
            if broker != leader:
                cluster.world.cut(f"broker-{leader}", f"broker-{broker}", Plane.REPLICATION)
        await cluster.send()  # idle followers would stay
        assert cluster.isr == (leader,)
        cluster.world.kill(leader)
        await cluster.world.eventually(
            lambda: leader in cluster.suspected, SESSION_MS // 2, "a suspicion"
        )
        assert (cluster.leader, cluster.isr) == (leader, (leader,))

    Cluster(7).run(story)
