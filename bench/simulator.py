"""How fast the simulator is: simulated seconds and events for each second of CPU time.

Three brokers, fifty acks=all produces per simulated second, no faults; once with one partition
and once with a hundred. Each run is repeated and the best counts: what else the machine does only
ever makes a run slower.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

from highwater_simulator.client import SimulatedClient
from highwater_simulator.world import World

CLIENTS = 5
PRODUCES_PER_S = 50
WARM_UP_MS = 500
TOPIC = "measured"
REPETITIONS = 3


@dataclass(frozen=True, slots=True)
class SimulatorSpeed:
    """One run; cpu_s leaves out the cluster's start."""

    partitions: int
    simulated_s: float
    cpu_s: float
    events: int
    produces: int

    @property
    def simulated_per_cpu(self) -> float:
        return self.simulated_s / self.cpu_s

    @property
    def events_per_cpu_s(self) -> float:
        return self.events / self.cpu_s


def measure(partitions: int, simulated_s: int, seed: int = 1) -> SimulatorSpeed:
    """Run one cluster and return how fast it went."""
    world = World(seed)
    clients = [world.client(f"client-{number}") for number in range(CLIENTS)]
    world.run(_start(world, clients[0], partitions), 10 * 60_000)
    acknowledged = [0] * CLIENTS
    for number, client in enumerate(clients):
        client.runtime.start("load", _produce(client, number, partitions, acknowledged))
    gc.collect()
    events, began_s = world.kernel.event_count, time.process_time()
    world.kernel.run_for(simulated_s * 1_000)
    cpu_s = time.process_time() - began_s
    events = world.kernel.event_count - events
    world.close()
    return SimulatorSpeed(partitions, simulated_s, cpu_s, events, sum(acknowledged))


def best_of(partitions: int, simulated_s: int, repetitions: int = REPETITIONS) -> SimulatorSpeed:
    runs = [measure(partitions, simulated_s) for _ in range(repetitions)]
    return min(runs, key=lambda run: run.cpu_s)


async def _start(world: World, client: SimulatedClient, partitions: int) -> None:
    world.start_all()
    await client.create_topic(TOPIC, partitions, 3, 60_000)
    await world.sleep(WARM_UP_MS)


async def _produce(
    client: SimulatedClient, number: int, partitions: int, acknowledged: list[int]
) -> None:
    """Write at this client's share of the rate, for ever, each record to the next partition."""
    interval_ms = 1_000 * CLIENTS // PRODUCES_PER_S
    count = 0
    next_ms = client.runtime.now_ms() + number * interval_ms // CLIENTS
    while True:
        await client.runtime.sleep(max(0, next_ms - client.runtime.now_ms()))
        next_ms += interval_ms
        partition = (count * CLIENTS + number) % partitions
        await client.send(TOPIC, partition, f"{number}-{count}", 5_000)
        count += 1
        acknowledged[number] += 1


def main() -> None:
    one, hundred = best_of(1, 20), best_of(100, 20)
    for run in (one, hundred):
        print(
            f"{run.partitions:4} partitions: {run.simulated_per_cpu:6.1f} simulated s per CPU s, "
            f"{run.events_per_cpu_s:8,.0f} events per CPU s, "
            f"{run.events / run.produces:5.1f} events per produce"
        )
    ratio = hundred.events_per_cpu_s / one.events_per_cpu_s
    print(f"events per CPU s with 100 partitions, of those with one: {ratio:.2f}")


if __name__ == "__main__":
    main()
