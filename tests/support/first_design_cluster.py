"""A simulated cluster without a controller (preset v2), and what tests ask of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from highwater_chaos.plan import PlanTopology
from highwater_core.config import Preset
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.first_design_znodes import decode_leader, leader_path, queue_path
from highwater_core.ids import TopicPartition
from highwater_core.ports import Coordination
from highwater_core.topic_znode import TopicContent, decode_topic
from highwater_core.znodes import topic_path
from highwater_simulator.client import SimulatedClient
from highwater_simulator.world import World

AT = TopicPartition("t", 0)
SETTINGS = {"session_timeout_ms": 900, "keep_in_sync_time_ms": 500}
WITHIN_MS = 30_000


class Cluster:
    """Brokers with t-0 on three of them, its client, and a ZooKeeper session of an operator."""

    def __init__(self, brokers: int = 3, seed: int = 1, **settings: int) -> None:
        topology = PlanTopology(
            brokers=brokers, preset=Preset.V2, broker_settings=SETTINGS | settings
        )
        self.world = World(seed, topology)
        self.client: SimulatedClient = self.world.client("admin")
        self.hand: Coordination

    def run(self, story: Callable[[Cluster], Awaitable[None]]) -> None:
        async def whole() -> None:
            self.world.start_all()
            self.hand = await self.world.coordination(self.client).open(60_000)
            everybody = tuple(self.world.brokers)
            await self.until(lambda: self.live() == everybody, "all brokers are live")
            assert await self.client.create_topic("t", 1, 3, within_ms=WITHIN_MS) is ErrorCode.NONE
            await self.in_sync()
            await story(self)

        try:
            self.world.run(whole(), limit_ms=180_000)
        finally:
            self.world.close()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        await self.world.eventually(condition, WITHIN_MS, what)

    async def in_sync(self) -> None:
        await self.until(lambda: self.world.is_replicated(AT, self.replicas()), "t-0 is in sync")

    def topic(self) -> TopicContent:
        found = self.world.zookeeper.data(topic_path("t"))
        assert found is not None
        return decode_topic(found[0], "t")

    def replicas(self) -> tuple[int, ...]:
        """Return the replicas that ZooKeeper assigns, () before there are any."""
        found = self.world.zookeeper.data(topic_path("t"))
        return decode_topic(found[0], "t").assignment[AT] if found else ()

    def live(self) -> tuple[int, ...]:
        snapshots = [self.world.snapshot(broker) for broker in self.world.brokers]
        return min((each.live_brokers if each else () for each in snapshots), key=len)

    def leader(self) -> int:
        """Return the broker of the leader path, -1 without one."""
        found = self.world.zookeeper.data(leader_path(AT))
        return -1 if found is None else decode_leader(found[0], "").broker

    async def killed(self) -> int:
        """Kill the leader, and return it once another one leads and serves clients."""
        old = self.leader()
        self.world.kill(old)
        await self.until(lambda: self.leader() not in (-1, old), "another broker leads")
        new = self.leader()
        await self.until(lambda: self.serves(new), "the new leader has taken over")
        return old

    def serves(self, broker: int) -> bool:
        hosted = self.world.hosted(broker, AT)
        return hosted is not None and hosted.serves_clients

    async def send(self, value: str) -> str:
        outcome = await self.client.send("t", 0, value, WITHIN_MS)
        return outcome.error or ErrorCode.NONE.name

    async def values(self) -> list[str]:
        """Return the records' values, each once: a record may be sent again."""
        read = await self.client.read_all("t", 0, WITHIN_MS)
        return list(dict.fromkeys(each.value.decode() for each in read))

    def queue(self, broker: int) -> list[str]:
        path = f"{queue_path(broker)}/"  # type: ignore[arg-type]
        return [each for each in self.world.zookeeper.dump() if each.startswith(path)]

    def told(self, kind: EventKind) -> list[TraceEvent]:
        events = (entry.event for entry in self.world.trace.entries)
        return [each for each in events if isinstance(each, TraceEvent) and each.kind is kind]

    def all_run(self) -> bool:
        return all(handle.is_running for handle in self.world.brokers.values())
