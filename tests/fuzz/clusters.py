"""A simulated cluster to be fed with hostile input, and what must hold of it afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from highwater_broker.node import BrokerNode
from highwater_chaos.faults import DiskOperation
from highwater_chaos.plan import PlanTopology
from highwater_client.outcomes import Outcome
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, NodeId, Offset, TopicPartition
from highwater_core.ports import CallFailed
from highwater_simulator.client import SimulatedClient
from highwater_simulator.disk_faults import DiskFaults
from highwater_simulator.world import CLIENT_PORT, NodeHandle, World
from highwater_wire.kafka.messages import (
    CONSUMER,
    FetchPartition,
    FetchRequest,
)
from highwater_wire.kafka.record_batch import decode_records, split_batches
from tests.fuzz.cases import Broken
from tests.support.failover_story import ORDERS, create_orders, send_records

WITNESS = TopicPartition("witness", 0)
"""What no hostile input names: whoever uses it must not notice any."""
WITHIN_MS = 120_000
STORY_WITHIN_MS = 3_600_000
READ_TRIES = 60
"""A second of virtual time apart."""
READS_MAX = 20_000
"""Reads of files for one input: more is a scan without a bound."""


class CountedReads(DiskFaults):
    """Counts a disk's reads."""

    reads = 0

    def meet(self, operation: DiskOperation, path: str) -> None:
        if operation is DiskOperation.READ:
            self.reads += 1
        super().meet(operation, path)


class FuzzedCluster:
    """Three brokers and a controller, with the topics orders and witness."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World(1, PlanTopology(brokers=3, controllers=1))
        self.client: SimulatedClient = self.world.client("witness-client")
        self._sent = 0

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        """Bring the cluster up and run the story in it.

        Raises:
            SimulationFailed: a node met a bug.
            Broken: what must hold does not.
        """

        async def whole() -> None:
            await self.bring_up()
            await story()

        try:
            self.world.run(whole(), STORY_WITHIN_MS)
        finally:
            self.world.close()

    async def bring_up(self) -> None:
        self.world.start_all()
        await create_orders(self.world, self.client)
        await send_records(self.client, 0, 5)
        await self._create(WITNESS.topic, 3)

    async def bring_up_alone(self) -> None:
        """Bring up a cluster of one broker, with the same topics, empty."""
        self.world.start_all()
        await self._create(ORDERS.topic, 1)
        await self._create(WITNESS.topic, 1)

    async def _create(self, topic: str, replication_factor: int) -> None:
        error = await self.client.create_topic(topic, 1, replication_factor, WITHIN_MS)
        if error is not ErrorCode.NONE:
            raise Broken("set-up", f"{topic} was not created: {error.name}")

    def broker(self, broker_id: int) -> tuple[NodeHandle, BrokerNode]:
        node = self.world.broker_node(broker_id)
        if node is None:
            raise Broken("every node lives on", f"broker {broker_id} is gone")
        return self.world.brokers[broker_id], node

    def leader(self) -> int:
        """Return the broker that leads orders, the first one while none does."""
        state = self.world.partition_state(ORDERS)
        return 0 if state is None or state.leader < 0 else int(state.leader)

    def check_alive(self) -> None:
        for handle in (*self.world.brokers.values(), *self.world.controllers.values()):
            if not handle.is_running:
                raise Broken("every node lives on", f"{handle.name} is gone")

    async def restart_all_brokers(self) -> None:
        """Kill and start every broker: what a client left on the disks must not keep one down."""
        for broker_id in self.world.brokers:
            self.world.kill(broker_id)
        await self.world.sleep(100)
        for broker_id in self.world.brokers:
            self.world.start(broker_id)
        await self.world.sleep(100)

    async def check_serves(self) -> None:
        """Write to the witness and read it back, as a client that has no part in anything."""
        self.check_alive()
        self._sent += 1
        value = f"witness-{self._sent}"
        outcome = await self.client.send(WITNESS.topic, WITNESS.partition, value, WITHIN_MS)
        if outcome.error or outcome.offset < 0:
            raise Broken("others are served", f"{value}: {outcome}")
        await self._await_read(outcome, value)
        if await self.client.metadata((ORDERS.topic,)) is None:
            raise Broken("others are served", "nobody answers a Metadata request")
        self.check_alive()

    async def _await_read(self, outcome: Outcome, value: str) -> None:
        """Read the record from its leader; that may change meanwhile, and be asked again."""
        problem = ""
        for _ in range(READ_TRIES):
            state = self.world.partition_state(WITNESS)
            leader = NodeId(-1) if state is None else state.leader
            problem = await self._read_problem(leader, outcome.offset, value.encode())
            if not problem:
                return
            await self.world.sleep(1_000)
        raise Broken("others are served", f"{value} cannot be read: {problem:.500}")

    async def _read_problem(self, leader: NodeId, offset: int, value: bytes) -> str:
        """Return why the leader does not answer with the record, empty when it does."""
        partition = FetchPartition(WITNESS.topic, 0, Offset(offset), 1 << 20)
        request = FetchRequest(CONSUMER, 500, 1, 1 << 20, (partition,))
        endpoint = Endpoint(f"broker-{leader}", CLIENT_PORT)
        try:
            answer = await self.client.transport.call(endpoint, "witness", request, 10_000)
        except CallFailed as failure:
            return str(failure)
        (result,) = answer.partitions
        if result.error is not ErrorCode.NONE or not result.records:
            return repr(result)
        found = decode_records(split_batches(bytes(result.records))[0].data)
        values = [record.value for record in found]
        return "" if value in values else f"{values!r} is there instead"
