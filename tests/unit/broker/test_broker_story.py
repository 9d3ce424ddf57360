"""Brokers in a whole simulated cluster: ISR changes, sessions, stops, deletions, zombies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest

from highwater_chaos.plan import PlanTopology
from highwater_core.config import Preset
from highwater_core.events import EventKind
from highwater_core.ids import Endpoint, node_name
from highwater_core.messages import ReplicaSnapshot
from highwater_simulator.network import Plane
from highwater_simulator.world import CLIENT_PORT, World
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory
from highwater_wire.kafka.messages import DeleteTopicsRequest
from tests.support.presets import CONTROLLED

BOTH = (Preset.FENCED, Preset.V3)


class Cluster:
    """A world with one client and the questions that the stories below ask."""

    def __init__(self, preset: Preset, **broker_settings: object) -> None:
        settings = {"replica_lag_time_max_ms": 1_000, **broker_settings}
        self.world = World(1, PlanTopology(preset=preset, broker_settings=settings))
        self.client = self.world.client("client")
        self.world.start_all()

    def run(self, story: Callable[[Cluster], Awaitable[None]]) -> None:
        async def main() -> None:
            error = await self.client.create_topic("t", 1, 3, 30_000)
            assert error.name == "NONE"
            await story(self)

        self.world.run(main(), 300_000)

    def now_ms(self) -> int:
        return self.world.kernel.now_ns() // 1_000_000

    def replica(self, broker: int) -> ReplicaSnapshot | None:
        snapshot = self.world.snapshot(broker)
        return snapshot.replicas[0] if snapshot and snapshot.replicas else None

    def leader(self) -> ReplicaSnapshot | None:
        """Return the leading replica of the highest epoch."""
        replicas = [self.replica(each) for each in self.world.brokers]
        leading = [each for each in replicas if each and each.role == "leader"]
        return max(leading, key=lambda each: each.leader_epoch) if leading else None

    def isr(self) -> set[int]:
        leader = self.leader()
        return set(leader.isr) if leader else set()

    def ends(self) -> list[tuple[int, int]]:
        """Return (high watermark, log end) of each replica."""
        replicas = [self.replica(each) for each in self.world.brokers]
        return [(each.high_watermark, each.log_end_offset) for each in replicas if each]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await self.world.eventually(condition, 60_000, what)

    async def send(self, *values: str, acks: int = -1) -> None:
        for value in values:
            outcome = await self.client.send("t", 0, value, 20_000, acks)
            assert outcome.type == "ok", outcome

    async def values(self) -> list[str]:
        records = await self.client.read_all("t", 0, 20_000)
        return [record.value.decode() for record in records]

    def led_by(self) -> int:
        leader = self.leader()
        assert leader is not None
        return int(leader.leader)


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(preset: Preset = Preset.FENCED, **settings: object) -> Cluster:
        made.append(Cluster(preset, **settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.world.close()


MakeCluster = Callable[..., Cluster]


@pytest.mark.parametrize("preset", BOTH)
def test_a_follower_that_cannot_fetch_leaves_the_isr_and_returns(
    make_cluster: MakeCluster, preset: Preset
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a")
        leader = cluster.led_by()
        cut = (leader + 1) % 3
        links = [(node_name(cut), node_name(leader)), (node_name(leader), node_name(cut))]
        for source, target in links:
            cluster.world.network.cut(source, target, Plane.REPLICATION)
        await cluster.send("b")
        assert cluster.isr() == {0, 1, 2} - {cut}
        for source, target in links:
            cluster.world.network.heal(source, target, Plane.REPLICATION)
        await cluster.until(lambda: cluster.isr() == {0, 1, 2}, "the ISR is whole again")
        await cluster.until(lambda: cluster.ends() == [(2, 2)] * 3, "all have all")
        assert cluster.led_by() == leader, "nobody was elected"

    make_cluster(preset).run(story)


@pytest.mark.parametrize("preset", BOTH)
def test_a_leader_whose_session_expires_registers_anew_and_comes_back_as_follower(
    make_cluster: MakeCluster, preset: Preset
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a")
        deposed = cluster.led_by()
        before = cluster.world.snapshot(deposed)
        assert before is not None
        (session,) = cluster.world.zookeeper.session_ids(node_name(deposed))
        cluster.world.zookeeper.expire(session)
        await cluster.until(lambda: cluster.led_by() != deposed, "another leads")
        await cluster.send("b")
        await cluster.until(lambda: cluster.isr() == {0, 1, 2}, "the ISR is whole again")
        after = cluster.world.snapshot(deposed)
        assert after is not None
        assert after.broker_epoch > before.broker_epoch
        assert await cluster.values() == ["a", "b"]

    make_cluster(preset).run(story)


@pytest.mark.parametrize("preset", BOTH)
def test_a_deposed_leaders_unreplicated_tail_is_cut(
    make_cluster: MakeCluster, preset: Preset
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a")
        await cluster.until(lambda: cluster.ends() == [(1, 1)] * 3, "all know of the commit")
        await cluster.world.sleep(6_000)  # The checkpoints know of it too: v3 truncates to those.
        deposed = cluster.led_by()
        for other in sorted({0, 1, 2} - {deposed}):
            cluster.world.network.cut(node_name(deposed), node_name(other), Plane.REPLICATION)
        await cluster.send("lost", acks=1)
        cluster.world.kill(deposed)
        await cluster.send("b")
        for other in sorted({0, 1, 2} - {deposed}):
            cluster.world.network.heal(node_name(deposed), node_name(other), Plane.REPLICATION)
        cluster.world.start(deposed)
        await cluster.until(lambda: cluster.isr() == {0, 1, 2}, "the ISR is whole again")
        await cluster.until(lambda: cluster.ends() == [(2, 2)] * 3, "all have all")
        cuts = cluster.world.trace.events(EventKind.LOG_TRUNCATED)
        assert [(cut.node, cut.offset, cut.detail["from_offset"]) for cut in cuts] == [
            (deposed, 1, 2)
        ]
        assert await cluster.values() == ["a", "b"]

    make_cluster(preset).run(story)


def test_a_clean_stop_hands_leadership_over_and_the_next_start_scans_nothing(
    make_cluster: MakeCluster,
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        stopped = cluster.led_by()
        asked_ms = cluster.now_ms()
        cluster.world.request_stop(stopped)
        await cluster.until(lambda: not cluster.world.handle(stopped).is_running, "it has stopped")
        assert cluster.now_ms() - asked_ms < 1_000
        elected, gone = EventKind.LEADER_ELECTED, EventKind.REPLICA_STOPPED
        order = [event.kind for event in cluster.world.trace.events(elected, gone)]
        assert order[:3] == [elected, elected, gone], "another is elected before this one is gone"
        await cluster.send("c")
        assert cluster.led_by() != stopped
        cluster.world.start(stopped)
        await cluster.until(lambda: cluster.isr() == {0, 1, 2}, "the ISR is whole again")
        recovered = [
            event
            for event in cluster.world.trace.events(EventKind.LOG_RECOVERED)
            if event.node == stopped
        ]
        assert [event.detail["clean"] for event in recovered] == [False, True]
        assert await cluster.values() == ["a", "b", "c"]

    make_cluster().run(story)


def test_a_stop_that_no_controller_answers_still_ends(make_cluster: MakeCluster) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a")
        for controller in cluster.world.controllers:
            cluster.world.kill(controller)
        cluster.world.request_stop(0)
        await cluster.until(lambda: not cluster.world.handle(0).is_running, "it has stopped")

    make_cluster().run(story)


@pytest.mark.parametrize("preset", BOTH)
def test_all_brokers_killed_at_once_come_back_with_everything(
    make_cluster: MakeCluster, preset: Preset
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a", "b")
        await cluster.until(lambda: cluster.ends() == [(2, 2)] * 3, "all know of the commits")
        await cluster.world.sleep(6_000)  # The checkpoints know of them too: v3 truncates to those.
        for broker in range(3):
            cluster.world.kill(broker)
        await cluster.world.sleep(500)
        for broker in range(3):
            cluster.world.start(broker)
        await cluster.until(lambda: cluster.isr() == {0, 1, 2}, "the ISR is whole again")
        await cluster.send("c")
        assert await cluster.values() == ["a", "b", "c"]

    make_cluster(preset).run(story)


@pytest.mark.parametrize("preset", BOTH)
def test_a_deleted_topic_leaves_no_folder_and_may_be_created_again(
    make_cluster: MakeCluster, preset: Preset
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a")
        endpoint = Endpoint(node_name(0), CLIENT_PORT)
        request = DeleteTopicsRequest(("t",), 20_000)
        await cluster.client.transport.call(endpoint, "admin", request, 20_000)
        await cluster.until(lambda: cluster.ends() == [], "no replica is left")
        for handle in cluster.world.brokers.values():
            assert not [path for path in handle.disk.files() if path.startswith("t-")]
        await cluster.client.create_topic("t", 1, 3, 20_000)
        await cluster.send("b")
        assert await cluster.values() == ["b"]

    make_cluster(preset).run(story)


@pytest.mark.parametrize("preset", CONTROLLED)
def test_a_replica_of_a_topic_deleted_meanwhile_leaves_no_folder(
    make_cluster: MakeCluster, preset: Preset
) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.send("a")
        away = (cluster.led_by() + 1) % 3
        cluster.world.kill(away)
        await cluster.until(lambda: cluster.isr() == {0, 1, 2} - {away}, "it is gone")
        zookeeper = await SimulatedCoordinationFactory(
            cluster.world.zookeeper, cluster.world.kernel.runtime("operator")
        ).open(6_000)
        for below in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
            await zookeeper.delete(f"/brokers/topics/t{below}")
        for controller in cluster.world.controllers:
            cluster.world.kill(controller)
        await cluster.world.sleep(7_000)
        for controller in cluster.world.controllers:
            cluster.world.start(controller)
        cluster.world.start(away)
        await cluster.until(lambda: stopped_on(cluster, away), "its replica is out of service")
        files = cluster.world.handle(away).disk.files()
        assert [path for path in files if path.startswith("t-")] == []

    make_cluster(preset).run(story)


def stopped_on(cluster: Cluster, broker: int) -> bool:
    events = cluster.world.trace.events(EventKind.REPLICA_STOPPED)
    return any(event.node == broker for event in events)
