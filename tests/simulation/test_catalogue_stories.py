"""Rows of the catalogue as stories: v3 breaks an invariant by that row, fenced breaks none.

Each story runs under both presets; they differ only in the historical fix.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

from highwater_chaos.plan import Plan, PlanTopology
from highwater_checker.catalogue.explain import Explanation, explain
from highwater_core import znodes
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition, node_name
from highwater_core.ports import CreateOp, DeleteOp
from highwater_simulator import liveness
from highwater_simulator.liveness import Core
from highwater_simulator.network import Plane
from highwater_simulator.oracle.documented import OnTheWay
from highwater_simulator.oracle.oracle import Oracle
from highwater_simulator.oracle.violation import InvariantBroken, Violation
from highwater_simulator.world import World
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory

T0 = TopicPartition("t", 0)
LONG_MS = 60_000


class Tale:
    """One story in one world, judged by the oracle as it runs."""

    def __init__(self, preset: Preset, flagged: tuple[str, ...] = (), **topology: Any) -> None:
        broker_settings = {"session_timeout_ms": 1_000, **topology.pop("broker_settings", {})}
        self.world = World(
            3, PlanTopology(preset=preset, broker_settings=broker_settings, **topology)
        )
        self.preset = preset
        plan = Plan(seed=3, topology=self.world.topology)
        also = flagged if preset is Preset.V3 else ()
        self.oracle = Oracle(self.world, OnTheWay(plan, self.world.trace.entries, also))
        self.client = self.world.client("client")
        self.violation: Violation | None = None

    def tell(self, story: Callable[[Tale], Awaitable[None]]) -> None:
        async def told() -> None:
            await story(self)

        try:
            self.world.run(told(), 300_000)
        except InvariantBroken as broken:
            self.violation = broken.violation

    def rows(self) -> dict[int, Explanation]:
        violation = self.violation
        assert violation is not None
        found = explain(
            violation.invariant,
            violation.topic,
            violation.partition,
            violation.offset,
            self.world.trace.events(),
        )
        return {each.row: each for each in found}

    # ------------------------------------------------------------ the stories' words

    async def begin(self, records: int, replicas: int = 3) -> None:
        self.world.start_all()
        assert await self.client.create_topic("t", 1, replicas, LONG_MS) is ErrorCode.NONE
        await self.write(records)
        await self.until(lambda: self.is_replicated(replicas), "replicated")

    async def write(self, count: int, acks: int = -1) -> None:
        for number in range(count):
            await self.client.send("t", 0, f"{self.world.kernel.now_ns()}-{number}", LONG_MS, acks)

    def is_replicated(self, replicas: int) -> bool:
        isr = self.isr()
        return len(isr) == replicas and self.world.is_replicated(T0, isr)

    def isr(self) -> list[int]:
        state = self.world.partition_state(T0)
        return [] if state is None else [int(broker) for broker in state.isr]

    def leader(self) -> int:
        state = self.world.partition_state(T0)
        return -1 if state is None else int(state.leader)

    def ends(self, broker: int) -> tuple[int, int]:
        """Return log end and high watermark."""
        replica = self.world.hosted(broker, T0)
        return (-1, -1) if replica is None else (replica.log_end_offset, replica.high_watermark)

    def others(self, *named: int) -> list[int]:
        """Return the other replicas, in the order of the assignment."""
        assigned = liveness.assignments_of(self.world)[T0]
        return [broker for broker in assigned if broker not in named]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await self.world.eventually(condition, LONG_MS, what)

    def cut(self, a: int, b: int) -> None:
        self.world.cut(node_name(a), node_name(b), Plane.REPLICATION)

    def heal(self, a: int, b: int) -> None:
        for source, target in ((a, b), (b, a)):
            self.world.network.heal(node_name(source), node_name(target), Plane.REPLICATION)

    def slow_down(self, source: int, target: int, latency_ms: int) -> None:
        self.world.network.slow_down(
            node_name(source), node_name(target), Plane.REPLICATION, latency_ms, 0
        )

    def cut_off_from_controllers(self, broker: int) -> None:
        for controller in self.world.controllers:
            self.world.cut(node_name(broker), node_name(controller), Plane.CONTROL)

    def let_controllers_reach(self, broker: int) -> None:
        for controller in self.world.controllers:
            ends = node_name(broker), node_name(controller)
            self.world.network.heal(*ends, Plane.CONTROL)
            self.world.network.heal(*reversed(ends), Plane.CONTROL)

    def epoch_of(self, broker: int) -> int:
        replica = self.world.hosted(broker, T0)
        return -1 if replica is None else replica.leader_epoch

    def expire(self, broker: int) -> None:
        for session_id in self.world.zookeeper.session_ids(node_name(broker)):
            self.world.zookeeper.expire(session_id)

    def knows_that_it_leads(self, broker: int) -> bool:
        replica, state = self.world.replica(broker, T0), self.world.partition_state(T0)
        return (
            replica is not None
            and state is not None
            and (replica.role, replica.leader_epoch) == ("leader", state.leader_epoch)
        )

    async def remake_topic(self) -> None:
        """Remove the topic's znodes and make it anew, with the same replicas."""
        session = await SimulatedCoordinationFactory(
            self.world.zookeeper, self.client.runtime
        ).open(LONG_MS)
        path = znodes.topic_path("t")
        (data, _) = await session.get(path)
        below = [each for each in self.world.zookeeper.dump() if each.startswith(f"{path}/")]
        doomed = (*sorted(below, reverse=True), path)
        await session.multi(tuple(DeleteOp(each) for each in doomed))
        await self.world.sleep(2_000)
        content = msgspec.json.decode(data)
        if "topic_id" in content:
            content["topic_id"] = "1" * len(content["topic_id"])
        await session.multi((CreateOp(path, msgspec.json.encode(content)),))
        await session.close()

    async def set_topic_config(self, config: dict[str, str]) -> None:
        """Write the topic's configuration without notifying the running brokers."""
        session = await SimulatedCoordinationFactory(
            self.world.zookeeper, self.client.runtime
        ).open(LONG_MS)
        path = znodes.topic_config_path("t")
        if await session.exists(path):
            await session.delete(path)
        await session.create(path, msgspec.json.encode({"version": 1, "config": config}))
        await session.close()

    async def see_it_settled(self, within_ms: int = 20_000) -> None:
        """Set violation to the first liveness property that does not hold in time, if any."""
        core = Core(tuple(self.world.brokers), tuple(self.world.controllers))
        for _ in range(within_ms // 500):
            if next(liveness.missing(self.world, core), None) is None:
                return
            await self.world.sleep(500)
        lacking = next(liveness.missing(self.world, core))
        assert lacking.topic_partition == T0
        now_ns = self.world.kernel.now_ns()
        self.violation = Violation(lacking.invariant, lacking.message, now_ns, "t", 0)


MakeTale = Callable[..., Tale]


@pytest.fixture
def make_tale() -> Iterator[MakeTale]:
    made: list[Tale] = []

    def make(preset: Preset, **topology: Any) -> Tale:
        made.append(Tale(preset, **topology))
        return made[-1]

    yield make
    for tale in made:
        tale.world.close()


def check_both(
    make_tale: MakeTale,
    story: Callable[[Tale], Awaitable[None]],
    row: int,
    invariants: tuple[str, ...],
    **topology: Any,
) -> None:
    """Check that v3 breaks one of the invariants by that row, and that fenced passes."""
    flawed = make_tale(Preset.V3, **topology)
    flawed.tell(story)
    assert flawed.violation is not None
    assert flawed.violation.invariant in invariants
    assert row in flawed.rows(), (str(flawed.violation), flawed.rows())
    sound = make_tale(Preset.FENCED, **topology)
    sound.tell(story)
    assert sound.violation is None


def test_row_1_a_follower_truncates_records_its_last_leader_had_committed(
    make_tale: MakeTale,
) -> None:
    """Source: KAFKA-1211, KIP-101 scenario 1."""

    async def story(tale: Tale) -> None:
        await tale.begin(5)
        leader = tale.leader()
        for follower in tale.others(leader):
            tale.slow_down(leader, follower, 200)
        await tale.write(2)
        tale.world.kill(leader)
        await tale.until(lambda: tale.leader() not in (leader, -1), "another leader")
        tale.world.heal_all()
        tale.world.start(leader)
        await tale.until(lambda: tale.is_replicated(3), "replicated")
        await tale.write(1)

    check_both(make_tale, story, 1, ("I11",))


def test_row_7_a_follower_joins_at_a_high_watermark_that_lags(make_tale: MakeTale) -> None:
    """The new leader's other ISR member is cut off: the HW stays. Source: KAFKA-7128."""

    async def story(tale: Tale) -> None:
        await tale.begin(5, replicas=4)
        old = tale.leader()
        new, silent, outside = tale.others(old)
        for broker in (old, new, silent):
            tale.cut(outside, broker)
        for follower in (new, silent):
            tale.slow_down(old, follower, 150)
        await tale.write(1)  # until the follower that is cut off has left the ISR
        tale.world.kill(old)
        assert tale.ends(new) == (6, 5)
        tale.world.heal_all()
        tale.slow_down(new, outside, 50)
        tale.cut(new, silent)
        tale.cut_off_from_controllers(silent)  # else it truncates too, which is row 1
        await tale.until(lambda: tale.leader() == new, "the new leader")
        await tale.until(lambda: tale.ends(outside) == (6, 6), "the outsider is back")

    settings = {"replica_lag_time_max_ms": 2_000}
    check_both(make_tale, story, 7, ("I2",), brokers=4, broker_settings=settings)


def test_row_10_a_leader_from_outside_the_isr_lacks_committed_records(
    make_tale: MakeTale,
) -> None:
    """Source: KIP-106, KAFKA-3410 (a)."""

    async def story(tale: Tale) -> None:
        await tale.begin(5)
        leader = tale.leader()
        for follower in tale.others(leader):
            tale.world.kill(follower)
        await tale.until(lambda: tale.isr() == [leader], "the leader alone")
        await tale.write(3)
        tale.world.kill(leader)
        await tale.world.sleep(3_000)
        for follower in tale.others(leader):
            tale.world.start(follower)
        await tale.world.sleep(10_000)
        tale.world.start(leader)
        await tale.until(lambda: tale.is_replicated(3), "replicated")

    check_both(make_tale, story, 10, ("I4",))


async def leave_one_behind(tale: Tale) -> tuple[int, int]:
    """Have the first leader truncate its log and write other records; one follower misses that.

    Return the leader and that follower. The follower has the leader's first record, is cut off from
    it and from all controllers, and then gets commands of the epoch after only.
    """
    await tale.begin(0)
    first = tale.leader()
    second, behind = tale.others(first)
    tale.cut(first, second)
    await tale.write(1, acks=1)
    await tale.until(lambda: tale.ends(behind) == (1, 0), "one of the others has it")
    for broker in (first, second):
        tale.cut(behind, broker)
    tale.cut_off_from_controllers(behind)
    tale.expire(first)
    await tale.until(lambda: tale.knows_that_it_leads(second), "the second leader")
    tale.heal(first, second)
    await tale.until(lambda: sorted(tale.isr()) == sorted((first, second)), "two in sync")
    await tale.until(lambda: tale.ends(first) == tale.ends(second), "of one length")
    tale.world.kill(second)
    await tale.until(lambda: tale.knows_that_it_leads(first), "the first leader again")
    await tale.write(2, acks=1)
    controller = tale.world.active_controller()
    assert controller is not None
    tale.world.kill(controller)
    return first, behind


KEPT_APART = {"broker_settings": {"replica_lag_time_max_ms": 2_000}}


def test_row_5_a_follower_that_missed_an_epoch_keeps_its_log(make_tale: MakeTale) -> None:
    """A command with the same leader has it keep its log. Source: KAFKA-7164."""

    async def story(tale: Tale) -> None:
        first, behind = await leave_one_behind(tale)
        tale.let_controllers_reach(behind)
        await tale.until(lambda: tale.epoch_of(behind) == tale.epoch_of(first), "it is told")
        tale.world.heal_all()
        await tale.until(lambda: tale.ends(behind) == tale.ends(first), "all that is there")

    check_both(make_tale, story, 5, ("I3",), **KEPT_APART)


def test_row_6_a_follower_of_an_older_epoch_fetches_on(make_tale: MakeTale) -> None:
    """It has no command with its leader's new epoch. Source: KAFKA-6880, KIP-320."""

    async def story(tale: Tale) -> None:
        first, behind = await leave_one_behind(tale)
        tale.heal(first, behind)
        await tale.world.sleep(2_000)
        tale.world.heal_all()
        await tale.until(lambda: tale.ends(behind) == tale.ends(first), "all that is there")

    check_both(make_tale, story, 6, ("I3",), **KEPT_APART)


CHECKPOINTED = {"broker_settings": {"high_watermark_checkpoint_interval_ms": 50}}


def test_row_24_an_old_topics_log_becomes_a_new_ones(make_tale: MakeTale) -> None:
    """The topic is deleted and created in ZooKeeper, as by tools of the time. Source: KIP-516."""

    async def story(tale: Tale) -> None:
        await tale.begin(5)
        await tale.world.sleep(500)  # all high watermarks are checkpointed
        leader = tale.leader()
        away = tale.others(leader)[0]
        tale.world.kill(away)
        await tale.until(lambda: away not in tale.isr(), "it has left the ISR")
        await tale.remake_topic()
        await tale.until(lambda: tale.leader() >= 0, "the new topic has a leader")
        for broker in tale.others(away):
            tale.world.kill(broker)
        tale.world.start(away)
        await tale.world.sleep(10_000)
        for broker in tale.others(away):
            tale.world.start(broker)
        await tale.until(lambda: tale.is_replicated(3), "the new topic is on all three")

    # Without topic ids epoch 0 of both topics looks the same: I16 cannot be judged.
    check_both(make_tale, story, 24, ("I13",), flagged=("I16",), **CHECKPOINTED)


def test_a_broker_that_heard_nothing_takes_up_the_new_topic_and_its_settings(
    make_tale: MakeTale,
) -> None:
    """The broker keeps its ZooKeeper session; controllers change. Source: KIP-516."""

    async def story(tale: Tale) -> None:
        await tale.begin(5)
        deaf = tale.others(tale.leader())[0]
        tale.cut_off_from_controllers(deaf)
        await tale.set_topic_config({"min.insync.replicas": "3"})
        await tale.remake_topic()
        await tale.until(lambda: tale.leader() >= 0, "the new topic has a leader")
        controller = tale.world.active_controller()
        assert controller is not None
        tale.world.kill(controller)
        tale.let_controllers_reach(deaf)
        tale.world.start(controller)
        await tale.until(lambda: tale.is_replicated(3), "the new topic is on all three")
        await tale.write(2)
        await tale.until(lambda: tale.ends(deaf) == (2, 2), "the new topic's records alone")
        replica = tale.world.hosted(deaf, T0)
        assert replica is not None
        assert replica.min_insync_replicas == 3
        await tale.see_it_settled()

    tale = make_tale(Preset.FENCED)
    tale.tell(story)
    assert tale.violation is None


def test_row_15_a_restart_that_no_controller_saw_gets_no_command(make_tale: MakeTale) -> None:
    """The controller is paused while the broker restarts. Source: KAFKA-7235, KIP-380."""

    async def story(tale: Tale) -> None:
        await tale.begin(5)
        controller = tale.world.active_controller()
        assert controller is not None
        follower = tale.others(tale.leader())[0]
        tale.world.pause(controller)
        tale.world.kill(follower)
        await tale.world.sleep(3_000)  # its registration is gone, and the controller asleep
        tale.world.start(follower)
        await tale.world.sleep(3_000)
        tale.world.resume(controller)
        await tale.write(3)
        await tale.see_it_settled()

    check_both(
        make_tale,
        story,
        15,
        ("L4", "L8"),
        controllers=1,
        controller_settings={"session_timeout_ms": 30_000},
    )
