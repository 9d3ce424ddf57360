"""`python -m bench.scale_simulated`: the cost of failovers for the controller of a large cluster.

Twenty brokers with ten thousand partitions, in the simulator: ZooKeeper operations and virtual
time of the controller's failover, of a broker's death and of its return. Virtual time is that of
messages and ZooKeeper's round trips; a node's own computing takes none. The CPU time of the
simulator's process, for all nodes together, is reported beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from highwater.output import say
from highwater_chaos.plan import PlanTopology
from highwater_core import znodes
from highwater_core.check import check
from highwater_core.errors import ErrorCode
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicPartition, node_name
from highwater_simulator.clocks import NS_PER_MS
from highwater_simulator.world import World

BROKERS = 20
TOPICS = 10
PARTITIONS_PER_TOPIC = 1_000
REPLICATION_FACTOR = 3
SESSION_TIMEOUT_MS = 6_000
WITHIN_MS = 600_000
LOST_BROKER = 2


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one event.

    decided_ms: virtual time from its begin to the controller's last write for it; acted_ms: to the
    last broker's change of role or ISR. operations: the controller's in ZooKeeper, a multi is one.
    """

    name: str
    partitions: int
    decided_ms: float
    acted_ms: float
    operations: int
    commands: int
    cpu_s: float


@dataclass(slots=True)
class Watching:
    """The events since it was last cleared, in virtual time."""

    operations: Counter[str] = field(default_factory=Counter)
    last_operation_ns: dict[str, int] = field(default_factory=dict)
    first_ns: dict[EventKind, int] = field(default_factory=dict)
    last_ns: dict[EventKind, int] = field(default_factory=dict)
    count: Counter[EventKind] = field(default_factory=Counter)

    def clear(self) -> None:
        for each in (
            self.operations,
            self.last_operation_ns,
            self.first_ns,
            self.last_ns,
            self.count,
        ):
            each.clear()

    def take(self, event: TraceEvent, now_ns: int) -> None:
        if event.kind is EventKind.CHECKPOINT_WRITTEN:  # idle brokers write it too
            return
        self.first_ns.setdefault(event.kind, now_ns)
        self.last_ns[event.kind] = now_ns
        self.count[event.kind] += 1


class Scale:
    """A large cluster at rest, and its failovers."""

    def __init__(self, topics: int, partitions_per_topic: int, brokers: int) -> None:
        self.partitions = [
            TopicPartition(f"t{topic}", partition)
            for topic in range(topics)
            for partition in range(partitions_per_topic)
        ]
        self.world = World(
            1,
            PlanTopology(
                brokers=brokers,
                broker_settings={"session_timeout_ms": SESSION_TIMEOUT_MS},
                controller_settings={"session_timeout_ms": SESSION_TIMEOUT_MS},
            ),
        )
        self.seen = Watching()
        self.costs: list[Cost] = []
        self._began_ns = 0
        self._topics = [(f"t{topic}", partitions_per_topic) for topic in range(topics)]
        self._count_operations()
        self.world.on_event = lambda event: self.seen.take(event, self.world.kernel.time_ns)

    def _count_operations(self) -> None:
        """Count each operation by the node whose session requests it."""
        zookeeper, apply = self.world.zookeeper, self.world.zookeeper.apply

        def counted(session: Any, operation: Any) -> object:
            name = session.client.node_name
            self.seen.operations[name] += 1
            self.seen.last_operation_ns[name] = self.world.kernel.time_ns
            return apply(session, operation)

        zookeeper.apply = counted  # type: ignore[method-assign]

    async def measure(self) -> None:
        """Do each failover, and record its cost."""
        world, costs = self.world, self.costs
        world.start_all()
        await world.eventually(self._has_controller, WITHIN_MS, "a controller is active")
        await self._create_topics()
        active = self._active()
        with self._timed() as cpu_s:
            world.kill(active)
            await world.eventually(
                lambda: EventKind.FAILOVER_COMPLETED in self.seen.last_ns,
                WITHIN_MS,
                "another takes over",
            )
            await world.eventually(self._is_quiet, WITHIN_MS, "all is quiet")
        costs.append(self._cost("the controller fails over", EventKind.CONTROLLER_ELECTED, cpu_s))
        world.start(active)
        await world.eventually(self._is_quiet, WITHIN_MS, "it stands by")
        with self._timed() as cpu_s:
            world.kill(LOST_BROKER)
            await world.eventually(self._leads_nothing, WITHIN_MS, "it leads nothing")
            await world.eventually(self._is_quiet, WITHIN_MS, "all is quiet")
        costs.append(self._cost("a broker dies", EventKind.BROKERS_CHANGED, cpu_s))
        with self._timed() as cpu_s:
            world.start(LOST_BROKER)
            await world.eventually(self._all_isrs_whole, WITHIN_MS, "it is in every ISR")
            await world.eventually(self._is_quiet, WITHIN_MS, "all is quiet")
        costs.append(self._cost("it returns", EventKind.BROKERS_CHANGED, cpu_s))

    async def _create_topics(self) -> None:
        client = self.world.client("admin")
        for topic, count in self._topics:
            error = await client.create_topic(topic, count, REPLICATION_FACTOR, WITHIN_MS)
            if error is not ErrorCode.NONE:
                raise RuntimeError(f"{topic} was not created: {error.name}")
        await self.world.eventually(self._all_isrs_whole, WITHIN_MS, "all are replicated")
        await self.world.eventually(self._is_quiet, WITHIN_MS, "all is quiet")

    @contextmanager
    def _timed(self) -> Iterator[Callable[[], float]]:
        self.seen.clear()
        self._began_ns = self.world.kernel.time_ns
        began_s = time.process_time()
        yield lambda: time.process_time() - began_s

    def _cost(self, name: str, begins: EventKind, cpu_s: Callable[[], float]) -> Cost:
        node, seen = node_name(self._active()), self.seen
        began_ns = seen.first_ns[begins]
        acts = (EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER, EventKind.ISR_CHANGED)
        acted_ns = max((seen.last_ns.get(kind, began_ns) for kind in acts), default=began_ns)
        return Cost(
            name,
            len(self.partitions),
            (seen.last_operation_ns.get(node, began_ns) - began_ns) / NS_PER_MS,
            (acted_ns - began_ns) / NS_PER_MS,
            seen.operations[node],
            seen.count[EventKind.COMMAND_SENT],
            cpu_s(),
        )

    # ------------------------------------------------------------ conditions

    def _active(self) -> int:
        active = self.world.active_controller()
        check(active is not None, "no controller is active")
        return active  # type: ignore[return-value]

    def _has_controller(self) -> bool:
        return self.world.active_controller() is not None

    def _is_quiet(self) -> bool:
        """Return whether no node has done anything for two virtual seconds."""
        last_ns = max((self._began_ns, *self.seen.last_ns.values()))
        return self.world.kernel.time_ns - last_ns > 2_000 * NS_PER_MS

    def _leads_nothing(self) -> bool:
        return self._states(lambda leader, isr: leader != LOST_BROKER)

    def _all_isrs_whole(self) -> bool:
        return self._states(lambda leader, isr: len(isr) == REPLICATION_FACTOR)

    def _states(self, holds: Callable[[int, tuple[int, ...]], bool]) -> bool:
        """Return whether it holds of every partition; the last first: they change in order."""
        for partition in reversed(self.partitions):
            path = znodes.partition_state_path(partition)
            found = self.world.zookeeper.data(path)
            if found is None:
                return False
            state = znodes.decode_partition_state(found[0], path)
            if not holds(state.leader, state.isr):
                return False
        return True


def measure(topics: int, partitions_per_topic: int, brokers: int = BROKERS) -> list[Cost]:
    """Return the cost of the controller's failover, of a broker's death and of its return."""
    scale = Scale(topics, partitions_per_topic, brokers)
    scale.world.run(scale.measure(), limit_ms=10 * WITHIN_MS)
    return scale.costs


def table_of(costs: list[Cost]) -> Table:
    table = Table(title=f"{BROKERS} brokers, {REPLICATION_FACTOR} replicas, in virtual time")
    for column in ("event", "partitions", "last write, ms", "last broker acted, ms"):
        table.add_column(column, justify="right" if table.columns else "left")
    for column in ("ZooKeeper operations", "commands", "CPU, s"):
        table.add_column(column, justify="right")
    for cost in costs:
        table.add_row(
            cost.name,
            f"{cost.partitions:,}",
            f"{cost.decided_ms:,.0f}",
            f"{cost.acted_ms:,.0f}",
            f"{cost.operations:,}",
            f"{cost.commands:,}",
            f"{cost.cpu_s:.1f}",
        )
    return table


def main() -> None:
    costs: list[Cost] = []
    for per_topic in (PARTITIONS_PER_TOPIC // 10, PARTITIONS_PER_TOPIC):
        say(f"{TOPICS} topics of {per_topic} partitions")
        costs.extend(measure(TOPICS, per_topic))
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(cost) for cost in costs]))
        return
    Console().print(table_of(costs))


if __name__ == "__main__":
    main()
