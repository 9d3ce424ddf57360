"""`python -m bench.fetchers`: the effect of several fetchers for a leader (num.replica.fetchers).

One cluster of three brokers; the number is altered while it runs. Each round measures every number
in turn, so that other load on the machine disturbs all of them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from bench import measures
from bench.command import result_name, run_command, write_result
from bench.machine import load_average
from bench.summary import format_summary, summarize
from bench.systems import BROKERS, HighwaterSystem, require_reachable_containers
from highwater.cluster.cluster import Cluster
from highwater.cluster.configs import alter_configs
from highwater.cluster.engine import connect_engine
from highwater.cluster.images import ensure_images
from highwater.output import RESULTS, say
from highwater.waiting import eventually
from highwater_core.config_layers import EVERY_BROKER, REPLICA_FETCHERS
from highwater_wire.kafka.config_messages import ConfigAlteration, ConfigOperationType

SESSION_TIMEOUT_MS = 30_000
FETCHERS = (1, 2, 4)
PARTITIONS = (12, 1_000)
RECORD_BYTES = 1_000
TOTAL_BYTES = 60_000_000
LATENCY_SAMPLES = 300
WITHIN_S = 120.0
_TASK = "ReplicaFetcherThread-"


class Case(msgspec.Struct, frozen=True):
    """The samples of one number of fetchers on one number of partitions."""

    partitions: int
    fetchers: int
    megabytes_per_s: list[float]
    p50_ms: list[float]
    p99_ms: list[float]


class Measured(msgspec.Struct, frozen=True):
    """All cases, and the load average of the minute before the measuring."""

    load_average_start: float
    cases: list[Case]


def bench(rounds: Annotated[int, typer.Option("--rounds")] = 3) -> None:
    """Measure produces with acks=all, of 12 and of 1,000 partitions, with 1, 2 and 4 fetchers."""
    engine = connect_engine()
    require_reachable_containers(engine)
    ensure_images(engine, say)
    began = load_average()
    system = HighwaterSystem()
    system.start(SESSION_TIMEOUT_MS)
    try:
        cases = [_measure(system, count, rounds) for count in PARTITIONS]
    finally:
        system.stop()
    measured = Measured(began, [case for of_count in cases for case in of_count])
    path = write_result(measured, f"fetchers-{result_name(datetime.now(UTC))}")
    table = Table("partitions", "fetchers", "MB/s", "p50 ms", "p99 ms")
    for case in measured.cases:
        samples = (case.megabytes_per_s, case.p50_ms, case.p99_ms)
        numbers = (format_summary(summarize(each)) for each in samples)
        table.add_row(f"{case.partitions:,}", str(case.fetchers), *numbers)
    RESULTS.print(table)
    say(f"all samples: {path}")


def _measure(system: HighwaterSystem, partition_count: int, rounds: int) -> list[Case]:
    topic = measures.new_topic(system.bootstrap, partition_count, WITHIN_S)
    cases = [Case(partition_count, fetchers, [], [], []) for fetchers in FETCHERS]
    for number, case in product(range(rounds), cases):
        _spread(system.cluster, case.fetchers)
        rate = measures.produce_throughput(
            system.bootstrap, topic, partition_count, RECORD_BYTES, TOTAL_BYTES
        )
        latency = measures.one_at_a_time(system.bootstrap, topic, LATENCY_SAMPLES)
        case.megabytes_per_s.append(rate.megabytes_per_second)
        case.p50_ms.append(latency.p50_ms)
        case.p99_ms.append(latency.p99_ms)
        say(
            f"round {number + 1}, {partition_count} partitions, {case.fetchers} fetchers:"
            f" {case.megabytes_per_s[-1]:.1f} MB/s, {latency.p50_ms:.1f} ms"
        )
    measures.delete_topic(system.bootstrap, topic)
    return cases


def _spread(cluster: Cluster, fetchers: int) -> None:
    """Have every broker use so many fetchers for each other broker."""
    change = ConfigAlteration(REPLICA_FETCHERS, ConfigOperationType.SET, str(fetchers))
    alter_configs(cluster, EVERY_BROKER, (change,))
    wanted = fetchers * (len(BROKERS) - 1)
    eventually(
        lambda: [_running(cluster, broker) for broker in BROKERS] == [wanted] * len(BROKERS),
        within=WITHIN_S,
        what=f"{wanted} fetchers on each broker",
    )


def _running(cluster: Cluster, broker: int) -> int:
    return sum(task.name.startswith(_TASK) for task in cluster.snapshot(broker).tasks)


if __name__ == "__main__":
    run_command("bench.fetchers", bench)
