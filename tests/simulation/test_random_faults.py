"""Faults drawn from a seed while clients write, and faults at each step of a controller's work.

Afterwards everything is healed: every partition must be fully replicated, every deletion done,
every cache current, and with the fenced preset no acknowledged record may be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind
from highwater_core.ids import TopicPartition
from highwater_core.ports import Rng
from highwater_core.topic_znode import decode_topic
from highwater_simulator.client import SimulatedClient
from highwater_simulator.network import Plane
from highwater_simulator.rng import SeededRng
from highwater_simulator.world import World
from highwater_simulator.zookeeper import HOST as ZOOKEEPER
from tests.support.presets import CONTROLLED
from tests.support.verification import find_bad_epochs, verify

T0 = TopicPartition("t", 0)
WITHIN_MS = 120_000
Item = TypeVar("Item")


def pick(rng: Rng, items: Sequence[Item]) -> Item:
    return items[rng.randrange(0, len(items))]


class Chaos:
    """A world under load, faults of it, and checks after it is healed."""

    def __init__(self, world: World, preset: Preset) -> None:
        self.world = world
        self.preset = preset
        self.runtime = world.kernel.runtime("chaos")
        self.producer = world.client("producer")
        self.admins = 0
        self.is_writing = True
        self.paused: list[int] = []
        self.nodes = [*world.controllers, *world.brokers]

    def name(self, node_id: int) -> str:
        return self.world.handle(node_id).name

    def running(self) -> list[int]:
        return [n for n in self.nodes if self.world.handle(n).is_running and n not in self.paused]

    async def begin(self) -> None:
        self.world.start_all()
        assert await self.producer.create_topic("t", 1, 3, WITHIN_MS) is ErrorCode.NONE
        self.runtime.start("producer", self.write())
        await self.world.sleep(1_000)

    async def write(self) -> None:
        number = 0
        while self.is_writing:
            await self.producer.send("t", 0, f"record-{number:04}", 3_000)
            await self.world.sleep(300)
            number += 1

    def admin(self) -> SimulatedClient:
        self.admins += 1
        return self.world.client(f"admin-{self.admins}")

    def create(self, topic: str, factor: int) -> None:
        self.runtime.start("create", self.admin().create_topic(topic, 2, factor, 10_000))

    def delete(self, topic: str) -> None:
        self.runtime.start("delete", self.admin().delete_topic(topic, 10_000))

    # ------------------------------------------------------------ faults

    async def hit(self, rng: Rng) -> None:
        """Do one fault, drawn from rng."""
        world, node = self.world, pick(rng, self.running() or self.nodes)
        first = rng.randrange(0, 3)
        brokers = [self.name(first), self.name((first + rng.randrange(1, 3)) % 3)]
        sessions = world.zookeeper.session_ids(self.name(node))
        match pick(rng, ["kill", "bounce", "stop", "pause", "cut", "zk", "heal", "topic", "start"]):
            case "kill" if node in self.running():
                world.kill(node)
            case "bounce" if node in self.running():
                world.kill(node)
                await world.sleep(pick(rng, [0, 10, 300]))
                world.start(node)
            case "stop" if node in self.running():
                world.request_stop(node)
            case "pause" if node in self.running():
                self.paused.append(node)
                world.pause(node)
            case "cut":
                controller = self.name(pick(rng, sorted(world.controllers)))
                source, target, plane = pick(
                    rng,
                    [
                        (*brokers, Plane.REPLICATION),
                        (controller, brokers[0], Plane.CONTROL),
                        (brokers[0], controller, Plane.CONTROL),
                        (self.name(node), ZOOKEEPER, Plane.ZOOKEEPER),
                    ],
                )
                world.network.cut(source, target, plane)
            case "zk" if sessions:
                lose = pick(rng, [world.zookeeper.expire, world.zookeeper.lose_connection])
                lose(sessions[-1])
            case "topic" if rng.random() < 0.5:
                self.create(pick(rng, ["x", "y"]), rng.randrange(1, 4))
            case "topic":
                self.delete(pick(rng, ["x", "y"]))
            case "start":
                self.start_dead()
            case "heal":
                world.heal_all()
                self.resume()

    def start_dead(self) -> None:
        for node_id in self.nodes:
            if not self.world.handle(node_id).is_running:
                self.world.start(node_id)

    def resume(self) -> None:
        for node_id in self.paused:
            self.world.resume(node_id)
        self.paused.clear()

    # ------------------------------------------------------------ the end

    async def end(self) -> None:
        self.world.heal_all()
        self.resume()
        self.start_dead()
        await self.world.sleep(8_000)
        self.is_writing = False
        await self.world.eventually(self.is_settled, WITHIN_MS, "all is as ZooKeeper says")

    def is_settled(self) -> bool:
        self.start_dead()  # a broker may have stopped late
        held = self.world.zookeeper.dump()
        if any(path.startswith(f"{znodes.DELETE_TOPICS}/") for path in held):
            return False
        prefix = f"{znodes.TOPICS}/"
        topics = {path.split("/")[3] for path in held if path.startswith(prefix)}
        assigned = {
            partition: brokers
            for topic in topics
            for partition, brokers in decode_topic(held[znodes.topic_path(topic)][0], topic)[
                0
            ].items()
        }
        hosted = {
            (replica.topic_partition, broker)
            for broker in self.world.brokers
            if (snapshot := self.world.snapshot(broker)) is not None
            for replica in snapshot.replicas
        }
        return (
            hosted == {(at, broker) for at, brokers in assigned.items() for broker in brokers}
            and all(self.world.is_replicated(at, brokers) for at, brokers in assigned.items())
            and self.world.active_controller() is not None
        )

    def problems(self) -> list[str]:
        """Return the problems; under v3 only problems that no row of the catalogue explains."""
        if self.preset is Preset.V3:
            return find_bad_epochs(self.world, T0)
        inits = Counter(
            (event.controller_epoch, event.detail["broker"], event.detail["broker_epoch"])
            for event in self.world.trace.events(EventKind.COMMAND_SENT)
            if event.detail["is_init"]
        )
        twice = [f"init sent twice: {to}" for to, count in inits.items() if count > 1]
        found = verify(self.world, self.producer.history, T0, self.world.brokers)
        return found + twice + self.committed_but_missing()

    def committed_but_missing(self) -> list[str]:
        """Return each clean election whose leader lacked records committed before (I4)."""
        committed, problems = 0, []
        for event in self.world.trace.events(
            EventKind.HIGH_WATERMARK_ADVANCED, EventKind.BECAME_LEADER
        ):
            if (event.topic, event.partition) != T0 or event.offset is None:
                continue
            if event.kind is EventKind.HIGH_WATERMARK_ADVANCED:
                committed = max(committed, event.offset)
            elif event.offset < committed:
                problems.append(f"leader {event.node} ends at {event.offset}, not {committed}")
        return problems


@pytest.mark.parametrize("preset", CONTROLLED)
@pytest.mark.parametrize("seed", range(3))
def test_cluster_recovers_from_faults_drawn_from_a_seed(
    seed: int, preset: Preset, make_cluster: Callable[..., Any]
) -> None:
    cluster = make_cluster(seed=seed, preset=preset)
    chaos, rng = Chaos(cluster.world, preset), SeededRng(seed).stream("chaos")

    async def story() -> None:
        await chaos.begin()
        for _ in range(15):
            await chaos.hit(rng)
            await cluster.world.sleep(pick(rng, [0, 5, 50, 700, 3_000, 8_000]))
        await chaos.end()

    cluster.world.run(story(), 900_000)
    assert chaos.problems() == []


@pytest.mark.parametrize("fault", ["kill", "lose"])
@pytest.mark.parametrize("step", [4, 9, 14])
@pytest.mark.parametrize("action", ["create", "delete", "kill the leader"])
def test_a_controllers_work_is_completed_after_a_fault_at_any_step(
    action: str, step: int, fault: str, make_cluster: Callable[..., Any]
) -> None:
    """A step is a call that ZooKeeper has carried out; its answer is lost."""
    world: World = make_cluster().world
    chaos = Chaos(world, Preset.FENCED)

    async def story() -> None:
        await chaos.begin()
        if action == "delete":
            assert await chaos.admin().create_topic("x", 2, 3, WITHIN_MS) is ErrorCode.NONE
        state, controller = world.partition_state(T0), world.active_controller()
        assert state is not None
        assert controller is not None
        strike_at_step(world, controller, step, fault)
        if action == "create":
            chaos.create("x", 3)
        elif action == "delete":
            chaos.delete("x")
        else:
            world.kill(int(state.leader))
        await world.sleep(7_000)
        await chaos.end()

    world.run(story(), 900_000)
    assert chaos.problems() == []


def strike_at_step(world: World, controller: int, step: int, fault: str) -> None:
    """Do the fault right after the controller's step-th call to ZooKeeper from now on."""
    name, apply = world.handle(controller).name, world.zookeeper.apply
    left = [step]

    def strike(session_id: int) -> None:
        if fault == "kill":
            world.kill(controller)
        else:
            world.zookeeper.lose_connection(session_id)

    def counting(session: Any, operation: Any) -> object:
        try:
            return apply(session, operation)
        finally:
            if session.client.node_name == name and left[0]:
                left[0] -= 1
                if not left[0]:
                    world.kernel.call_later(0, lambda: strike(session.session_id))

    world.zookeeper.apply = counting  # type: ignore[method-assign]
