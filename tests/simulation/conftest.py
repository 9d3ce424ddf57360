"""A cluster in virtual time for each test, and steps that many stories have."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from highwater_chaos.plan import Network as Links
from highwater_chaos.plan import PlanTopology
from highwater_core.ids import TopicPartition
from highwater_core.ports import Coordination, CoordinationEvent, CoordinationEventKind
from highwater_simulator.client import SimulatedClient
from highwater_simulator.kernel import Kernel
from highwater_simulator.network import Network, Plane
from highwater_simulator.rng import SeededRng
from highwater_simulator.tasks import NodeRuntime
from highwater_simulator.world import World
from highwater_simulator.zookeeper import HOST, ZooKeeper
from highwater_simulator.zookeeper_session import SimulatedCoordinationFactory
from tests.support.failover_story import ORDERS, create_orders, full_isr, send_records
from tests.support.presets import CONTROLLED
from tests.support.verification import verify

STORY_WITHIN_MS = 900_000


class Cluster:
    """A started world with a client; stories are coroutines that get it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client: SimulatedClient = world.client("client-0")
        self.sent = 0

    def run(
        self, story: Callable[[Cluster], Coroutine[Any, Any, None]], *, retention: bool = False
    ) -> None:
        """Run the story, then check the replicas and the client's history.

        retention: the replicas' logs may have different starts.
        """
        self.world.run(story(self), STORY_WITHIN_MS)
        history, brokers = self.client.history, self.world.brokers
        assert verify(self.world, history, ORDERS, brokers, retention=retention) == []

    async def begin(self, records: int = 20) -> None:
        """Start all nodes, create the topic, write records, and wait until they are replicated."""
        self.world.start_all()
        await create_orders(self.world, self.client)
        await self.send(records)
        await self.full_isr()

    async def send(self, count: int) -> None:
        await send_records(self.client, self.sent, count)
        self.sent += count

    async def full_isr(self) -> None:
        await full_isr(self.world)

    def leader(self, topic_partition: TopicPartition = ORDERS) -> int:
        state = self.world.partition_state(topic_partition)
        assert state is not None
        return int(state.leader)

    def follower(self) -> int:
        return next(broker for broker in self.world.brokers if broker != self.leader())

    async def start_dead(self) -> None:
        """Start all stopped brokers; retry brokers that cannot start at once."""
        brokers = self.world.brokers

        def all_run() -> bool:
            for broker_id, handle in brokers.items():
                if not handle.is_running:
                    self.world.start(broker_id)
            return all(handle.is_running for handle in brokers.values())

        for what in ("run", "stay"):
            await self.world.sleep(100)
            await self.world.eventually(all_run, 10_000, f"all brokers {what}")

    def controller(self) -> int:
        controller = self.world.active_controller()
        assert controller is not None
        return controller


MakeCluster = Callable[..., Cluster]


@pytest.fixture
def make_cluster() -> Iterator[MakeCluster]:
    made: list[Cluster] = []

    def make(seed: int = 1, links: Links | None = None, **topology: Any) -> Cluster:
        made.append(Cluster(World(seed, PlanTopology(**topology), links)))
        return made[-1]

    yield make
    for cluster in made:
        cluster.world.close()


@pytest.fixture(params=CONTROLLED)
def cluster(request: pytest.FixtureRequest, make_cluster: MakeCluster) -> Cluster:
    """A cluster of three brokers and two controllers, under each preset."""
    return make_cluster(preset=request.param)


ZOOKEEPER_SESSION_MS = 6_000


class Ensemble:
    """The simulated ZooKeeper, its network, and clients by name."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.network = Network(self.kernel, SeededRng(1))
        self.server = ZooKeeper(self.kernel, self.network)
        self.runtimes: dict[str, NodeRuntime] = {}

    async def open(self, name: str) -> Coordination:
        runtime = self.runtimes[name] = self.kernel.runtime(name)
        session = await SimulatedCoordinationFactory(self.server, runtime).open(
            ZOOKEEPER_SESSION_MS
        )
        opened = await session.events.get()
        assert opened == CoordinationEvent(CoordinationEventKind.SESSION_ESTABLISHED)
        return session

    def run(self, body: Callable[[NodeRuntime], Coroutine[Any, Any, None]]) -> None:
        runtime = self.kernel.runtime("test")
        task = runtime.start("test", body(runtime))
        self.kernel.run_until(task.is_done, 120_000, "the test's end")
        self.kernel.close()

    def cut(self, name: str) -> None:
        self.network.cut_both_ways(name, HOST, Plane.ZOOKEEPER)


@pytest.fixture
def ensemble() -> Ensemble:
    return Ensemble()
