"""The state that a healed cluster must reach: each condition is broken once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from highwater_broker.fetcher_registry import FetcherKey
from highwater_broker.log.folders import topic_aside
from highwater_broker.partition import Partition
from highwater_broker.roles import Stopped
from highwater_chaos.plan import PlanTopology
from highwater_core.config import Preset
from highwater_core.ids import NodeId, Offset, PartitionEpoch, TopicId, TopicPartition
from highwater_simulator.disk import Disk
from highwater_simulator.disk_tree import FolderNode
from highwater_simulator.liveness import (
    Core,
    _folders_left_over,
    _replicas_left_over,
    assignments_of,
    extend_core,
    hosted_high_watermarks,
    missing,
    not_checkpointed,
)
from highwater_simulator.operators import change_config
from highwater_simulator.oracle.checkpoints import HIGH_WATERMARKS
from highwater_simulator.rng import SeededRng
from highwater_simulator.world import World
from tests.support.failover_story import ORDERS

ALL = Core((0, 1, 2), (1000, 1001))


class Settled:
    """A cluster for which every condition holds."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        cluster.world.run(cluster.begin(3), 60_000)
        for _ in range(400):
            if not self.missing():
                return
            self.world.kernel.run_for(20)
        raise AssertionError(list(missing(self.world, ALL)))

    def missing(self, core: Core = ALL) -> list[str]:
        found = list(missing(self.world, core))
        assert all(each.message for each in found)
        return list(dict.fromkeys(each.invariant for each in found))

    def after(self, duration_ms: int) -> Settled:
        self.world.kernel.run_for(duration_ms)
        return self

    def hosted(self, broker: int) -> Partition:
        found = self.world.hosted(broker, ORDERS)
        assert found is not None
        return found

    @property
    def leader(self) -> int:
        return int(self.cluster.leader())

    @property
    def follower(self) -> int:
        return next(broker for broker in ALL.brokers if broker != self.leader)


@pytest.fixture
def settled(make_cluster: Callable[..., Any]) -> Settled:
    return Settled(
        make_cluster(
            broker_settings={"session_timeout_ms": 600, "replica_lag_time_max_ms": 600},
            controller_settings={"session_timeout_ms": 600},
        )
    )


def test_l1_one_controller_acts_and_all_of_the_core_runs(settled: Settled) -> None:
    settled.world.kill(settled.follower)
    assert "L1" in settled.missing()
    settled.world.start(settled.follower)
    passive = next(node for node in ALL.controllers if node != settled.cluster.controller())
    settled.world.kill(passive)
    assert "L1" in settled.missing()
    settled.world.kill(settled.cluster.controller())
    assert settled.missing()[0] == "L1"


def test_l2_a_partition_with_a_live_isr_member_has_a_leader(settled: Settled) -> None:
    settled.world.kill(settled.leader)
    core = Core(tuple(b for b in ALL.brokers if b != settled.leader), ALL.controllers)
    assert "L2" in settled.missing(core)


def test_l3_a_leader_knows_its_written_state(settled: Settled) -> None:
    hosted = settled.hosted(settled.leader)
    hosted.partition_epoch = PartitionEpoch(hosted.partition_epoch + 1)
    assert settled.missing() == ["L3"]
    hosted.partition_epoch = PartitionEpoch(hosted.partition_epoch - 1)
    assert settled.missing() == []
    hosted.role = Stopped()
    assert "L3" in settled.missing()


def test_l3_brokers_metadata_is_the_written_state_without_other_topics(settled: Settled) -> None:
    node = settled.world.broker_node(settled.follower)
    assert node is not None
    settled.world.run(settled.cluster.client.create_topic("gone", 1, 3, 5_000), 60_000)
    for _ in range(200):
        if not settled.after(20).missing():
            break
    told = node.metadata.partition("gone", 0)
    assert told is not None
    settled.world.run(settled.cluster.client.delete_topic("gone", 5_000), 60_000)
    for _ in range(200):
        if not settled.after(20).missing():
            break
    assert settled.missing() == []
    node.metadata._put(told)
    assert settled.missing() == ["L3"]


def test_l4_who_lags_leaves_the_isr_and_the_isr_is_the_core(settled: Settled) -> None:
    gone = settled.follower
    settled.world.kill(gone)
    core = Core(tuple(b for b in ALL.brokers if b != gone), ALL.controllers)
    assert {"L1", "L4"} <= set(settled.missing(core))
    assert settled.after(3_000).missing(core) == []
    assert "L4" in settled.missing(ALL)


def test_l5_the_high_watermark_reaches_the_log_end(settled: Settled) -> None:
    hosted = settled.hosted(settled.leader)
    hosted._high_watermark = Offset(hosted.high_watermark - 1)
    assert "L5" in settled.missing()


def test_l5_is_asked_of_nobody_where_too_few_can_be_in_sync(settled: Settled) -> None:
    world = settled.world
    gone = [broker for broker in ALL.brokers if broker != settled.leader]

    async def ask_for_two() -> None:
        session = await world.coordination(settled.cluster.client).open(6_000)
        await change_config(session, ORDERS.topic, {"min.insync.replicas": "2"})

    world.run(ask_for_two(), 10_000)
    for broker in gone:
        world.kill(broker)
    core = Core((settled.leader,), ALL.controllers)
    settled.after(3_000)
    hosted = settled.hosted(settled.leader)
    hosted._high_watermark = Offset(hosted.high_watermark - 1)
    assert settled.missing(core) == []


@pytest.mark.parametrize("is_away", [False, True], ids=["all can be asked", "one is away"])
def test_l6_a_deletion_ends_unless_a_replica_cannot_be_asked(
    settled: Settled, is_away: bool
) -> None:
    world = settled.world
    gone = settled.follower
    if is_away:
        world.kill(gone)
        settled.after(3_000)
    core = Core(tuple(b for b in ALL.brokers if not is_away or b != gone), ALL.controllers)
    controller = settled.cluster.controller()
    world.pause(controller)
    settled.cluster.client.runtime.start(
        "delete", settled.cluster.client.delete_topic("orders", 5_000)
    )
    world.resume(controller)
    seen: list[str] = []
    for _ in range(400):
        found = settled.after(1).missing(core)
        if world.zookeeper.data("/admin/delete_topics/orders") is not None:
            seen += found
    assert ("L6" in seen) is not is_away


def test_l8_a_follower_follows_the_leader_up_to_its_end(settled: Settled) -> None:
    hosted = settled.hosted(settled.follower)
    hosted._high_watermark = Offset(hosted.high_watermark - 1)
    assert settled.missing() == ["L8"]
    hosted.role = Stopped()
    assert settled.missing() == ["L8"]


def test_l8_of_each_leader_there_is_one_fetcher_and_of_nobody_else(settled: Settled) -> None:
    node = settled.world.broker_node(settled.follower)
    assert node is not None
    node._fetchers.remove(ORDERS)
    node._fetchers.drop_idle()
    assert settled.after(1).missing() == ["L8"]
    follower = settled.hosted(settled.follower)
    node._fetchers.add(follower, NodeId(settled.leader), truncates=True, is_in_sync=True)
    assert settled.after(500).missing() == []
    other = next(b for b in ALL.brokers if b not in (settled.leader, settled.follower))
    node._fetchers._start(FetcherKey(NodeId(other), 0, is_by_name=False))
    assert settled.missing() == ["L8"]


def test_i13_no_broker_hosts_an_unassigned_replica(settled: Settled) -> None:
    snapshot = settled.world.snapshot(1)
    assert snapshot is not None
    assert list(_replicas_left_over(1, snapshot, assignments_of(settled.world))) == []
    for assigned in ({}, {ORDERS: (0, 2)}):
        found = [each.invariant for each in _replicas_left_over(1, snapshot, assigned)]
        assert found == ["I13"]


@pytest.mark.parametrize(
    ("folder", "broken"),
    [
        ("gone-0", ["I13"]),
        ("gone-0.0-delete", ["I13"]),
        ("gone-0.1-stray", ["I13"]),
        ("orders-7", []),
        ("orders-0.0-stray", []),
        ("other", []),
    ],
)
def test_i13_no_broker_keeps_the_log_of_a_topic_that_is_gone(
    settled: Settled, folder: str, broken: list[str]
) -> None:
    settled.world.brokers[1].disk.root.entries[folder] = FolderNode()
    assert settled.missing() == broken


@pytest.mark.parametrize("folder", ["d0", "d1"])
@pytest.mark.parametrize(
    ("name", "is_gone"),
    [("gone-0", True), ("gone-0.0-stray", True), ("orders-0.0-stray", False)]
    + [(f"{topic_aside(letter * 249)}-0.0-stray", letter == "g") for letter in "go"],
)
def test_i13_no_log_folder_keeps_the_log_of_a_topic_that_is_gone(
    folder: str, name: str, is_gone: bool
) -> None:
    disk = Disk(SeededRng(1), ("d0", "d1"))
    disk.root.entries[folder] = logs = FolderNode()
    logs.entries[name] = FolderNode()
    world: Any = SimpleNamespace(brokers={1: SimpleNamespace(disk=disk)})
    assigned = {ORDERS: (1,), TopicPartition("o" * 249, 0): (1,)}
    assert [f"{folder}/{name}" in each.message
            for each in _folders_left_over(world, 1, assigned)] == [True] * is_gone  # fmt: skip


def test_i15_the_committed_end_comes_into_every_brokers_checkpoint(settled: Settled) -> None:
    world = settled.world
    had = dict(hosted_high_watermarks(world, ALL))
    assert [(broker, at) for broker, at, _ in had] == [(0, ORDERS), (1, ORDERS), (2, ORDERS)]
    assert min(had.values()) > 0
    settled.after(6_000)
    assert list(not_checkpointed(world, had)) == []
    one = next(key for key in had if key[0] == 1)
    had[one] += 1
    assert [each.invariant for each in not_checkpointed(world, had)] == ["I15"]
    world.brokers[2].disk.root.entries.pop(HIGH_WATERMARKS)
    assert len(list(not_checkpointed(world, had))) == 2
    of_another_topic = {(1, ORDERS, TopicId("another")): 9}
    assert list(not_checkpointed(world, of_another_topic)) == []


def test_a_core_stays_as_it_is_where_there_is_nothing_to_lead() -> None:
    world = World(1, PlanTopology(preset=Preset.FENCED))
    assert extend_core(world, Core((0,), (1000,))) == Core((0,), (1000,))
    world.close()


@pytest.fixture
def alone(settled: Settled) -> Settled:
    for broker in ALL.brokers:
        if broker != settled.leader:
            settled.world.kill(broker)
    return settled.after(3_000)


def test_a_core_without_any_isr_member_gets_one(alone: Settled) -> None:
    others = tuple(broker for broker in ALL.brokers if broker != alone.leader)
    assert extend_core(alone.world, Core(others, (1000,))) == Core(ALL.brokers, (1000,))
    assert extend_core(alone.world, Core((alone.leader,), (1000,))).brokers == (alone.leader,)
