"""A failover: a leader is killed, another leads, the killed broker returns; no record is lost."""

from __future__ import annotations

from dataclasses import dataclass

from highwater_chaos.plan import Network, PlanTopology
from highwater_checker.history import HistoryEvent, sends_of
from highwater_core.errors import ErrorCode
from highwater_core.ids import TopicPartition
from highwater_simulator.client import SimulatedClient
from highwater_simulator.kernel import LimitPassed
from highwater_simulator.world import World
from tests.support.verification import verify

ORDERS = TopicPartition("orders", 0)
RECORDS_PER_PHASE = 20
SEND_WITHIN_MS = 60_000
SETTLE_WITHIN_MS = 60_000
STORY_WITHIN_MS = 600_000


@dataclass(frozen=True, slots=True)
class StoryResult:
    """A story's outcome; problems is empty where every check passed."""

    world: World
    history: tuple[HistoryEvent, ...]
    problems: tuple[str, ...]

    @property
    def digest(self) -> str:
        return self.world.trace.digest()

    @property
    def acknowledged(self) -> int:
        return len(sends_of(self.history).acknowledged)


async def send_records(client: SimulatedClient, first: int, count: int) -> None:
    for number in range(first, first + count):
        await client.send(ORDERS.topic, ORDERS.partition, f"order-{number:04}", SEND_WITHIN_MS)


async def create_orders(world: World, client: SimulatedClient) -> None:
    """Create the topic on three brokers and wait until all are in its ISR."""
    error = await client.create_topic(ORDERS.topic, 1, 3, SEND_WITHIN_MS)
    if error is not ErrorCode.NONE:
        raise LimitPassed(f"the topic was not created: {error.name}\n{world.kernel.describe()}")
    await full_isr(world)


async def full_isr(world: World) -> None:
    """Wait until every broker is in the ISR and every high watermark at the common log end."""
    await world.eventually(
        lambda: world.is_replicated(ORDERS, world.brokers), SETTLE_WITHIN_MS, "a full ISR"
    )


async def failover(world: World, client: SimulatedClient) -> None:
    world.start_all()
    await create_orders(world, client)
    await send_records(client, 0, RECORDS_PER_PHASE)
    await full_isr(world)
    state = world.partition_state(ORDERS)
    leader = -1 if state is None else int(state.leader)
    world.kill(leader)
    await send_records(client, RECORDS_PER_PHASE, RECORDS_PER_PHASE)
    world.start(leader)
    await full_isr(world)
    await send_records(client, 2 * RECORDS_PER_PHASE, RECORDS_PER_PHASE)
    await full_isr(world)
    await client.read_all(ORDERS.topic, ORDERS.partition, SEND_WITHIN_MS)


def run_failover_story(
    seed: int, topology: PlanTopology | None = None, links: Network | None = None
) -> StoryResult:
    """Run the story in a world of its own.

    Raises:
        LimitPassed: a step of the story did not end in time.
        SimulationFailed: a bug stopped a node.
    """
    world = World(seed, topology, links)
    client = world.client("client-0")
    try:
        world.run(failover(world, client), STORY_WITHIN_MS)
        problems = verify(world, client.history, ORDERS, world.brokers)
        wanted = 3 * RECORDS_PER_PHASE
        acknowledged = len(sends_of(client.history).acknowledged)
        if acknowledged != wanted:
            problems.append(f"{acknowledged} of {wanted} records were acknowledged")
    finally:
        world.close()
    return StoryResult(world, tuple(client.history), tuple(problems))
