"""`python -m bench.scale`: a broker and a controller die in a cluster of many partitions.

In containers, three brokers, three replicas of each of 2,000 partitions; with --kafka beside Apache
Kafka 3.9.1, in turns. Times begin when ZooKeeper ends the dead node's session, so that the
session's timeout is in none; they end when clients are served: a leader answers ListOffsets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from bench import measures
from bench.apache_kafka.system import ApacheKafkaSystem
from bench.command import run_command
from bench.in_turns import Samples, measure_in_turns, write_between
from bench.report import (
    Result,
    heading,
    machine_line,
    markdown_table,
    table_rows,
)
from bench.systems import BROKERS, HighwaterSystem, System
from bench.targets import Measure
from bench.zookeeper import await_gone, zookeeper_of
from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater.output import say
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, NodeId
from highwater_wire.kafka.messages import (
    CONSUMER,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
)

SESSION_TIMEOUT_MS = 6_000
WITHIN_S = 300.0
MEASURES = (
    Measure("created", "topic created, to the last full ISR", "s"),
    Measure("moved", "broker dead, to its last leadership moved", "s"),
    Measure("returned", "broker registered again, to the last full ISR", "s"),
    Measure("elected", "controller dead, to a record in a new topic", "s"),
)
Place = tuple[str, int]
"""Topic and partition."""
MARKS = "<!-- bench scale: begin -->", "<!-- bench scale: end -->"


def bench(
    kafka: Annotated[bool, typer.Option("--kafka", help="Apache Kafka too, in turns.")] = False,
    partitions: Annotated[int, typer.Option(help="Of all topics together.", min=3)] = 2_000,
    topics: Annotated[int, typer.Option(help="So many topics, of equal size.", min=1)] = 1,
    repeat: Annotated[int, typer.Option(help="Clusters of each system.", min=1)] = 3,
    into: Annotated[
        Path | None, typer.Option("--markdown", help="Write the table between the file's marks.")
    ] = None,
) -> None:
    """Measure the cost of the death of a broker and of the controller with many partitions."""
    if partitions % topics:
        raise typer.BadParameter(
            f"{partitions} partitions are not equal shares for {topics} topics"
        )
    systems: list[System] = [HighwaterSystem(), *([ApacheKafkaSystem(say)] if kafka else [])]

    def measure_and_report(system: System) -> Samples:
        times_s = measure(system, topics, partitions // topics)
        for name, value in times_s.items():
            say(f"{system.name}: {name} after {value:.2f} s")
        return {name: (value,) for name, value in times_s.items()}

    result = measure_in_turns("scale", systems, repeat, measure_and_report, MEASURES)
    if into is not None:
        write_between(into, MARKS, _markdown(result, partitions, topics))


def measure(system: System, topic_count: int, partition_count: int) -> Mapping[str, float]:
    """Return the seconds of each of MEASURES, in a cluster of its own.

    partition_count: of each topic.
    """
    system.start(SESSION_TIMEOUT_MS)
    try:
        with zookeeper_of(system) as zookeeper:
            began_s = time.monotonic()
            topics = measures.create_topics(
                system.bootstrap, topic_count, partition_count, WITHIN_S
            )
            _await_led(system, BROKERS, list(product(topics, range(partition_count))))
            measures.wait_for_full_isrs(system.bootstrap, topics, WITHIN_S)
            created_s = time.monotonic() - began_s
            lost = next(each for each in BROKERS if each != _controller(zookeeper))
            moved_s = _measure_death(system, zookeeper, topics, lost)
            returned_s = _measure_return(system, zookeeper, topics, lost)
            elected_s = _measure_controller(system, zookeeper)
    finally:
        system.stop()
    return {
        "created": created_s,
        "moved": moved_s,
        "returned": returned_s,
        "elected": elected_s,
    }


def _measure_death(
    system: System, zookeeper: KazooClient, topics: Sequence[str], lost: int
) -> float:
    survivors = [each for each in BROKERS if each != lost]
    led = [
        (topic, partition)
        for topic, leaders in measures.leaders_of_all(system.bootstrap, topics).items()
        for partition, leader in leaders.items()
        if leader == lost
    ]
    with ThreadPoolExecutor(1) as pool:
        gone = pool.submit(await_gone, zookeeper, znodes.broker_path(NodeId(lost)), WITHIN_S)
        system.kill_broker(lost)
        began_s = gone.result()
    _await_led(system, survivors, led)
    return time.monotonic() - began_s


def _measure_return(
    system: System, zookeeper: KazooClient, topics: Sequence[str], lost: int
) -> float:
    system.start_broker(lost)
    _await(
        lambda: zookeeper.exists(znodes.broker_path(NodeId(lost))) is not None,
        f"broker {lost} is back",
    )
    began_s = time.monotonic()
    measures.wait_for_full_isrs(system.bootstrap, topics, WITHIN_S)
    return time.monotonic() - began_s


def _measure_controller(system: System, zookeeper: KazooClient) -> float:
    active = _controller(zookeeper)
    with ThreadPoolExecutor(1) as pool:
        gone = pool.submit(_await_other_owner, zookeeper, active)
        system.kill_broker(active)
        began_s = gone.result()
    _await(lambda: _is_created(system), "a topic is created by the next controller")
    return time.monotonic() - began_s


def _is_created(system: System) -> bool:
    """Return whether a topic of two replicas could be created and takes a record.

    Apache Kafka's controller is one of the three brokers, and dead.
    """
    try:
        topic = measures.create_topic(system.bootstrap, 1, within_s=5.0, replicas=2)
        measures.produce_one(system.bootstrap, topic)
    except (KafkaException, TimeoutError):
        return False
    return True


# ---------------------------------------------------------------- conditions


def _controller(zookeeper: KazooClient) -> int:
    return int(json.loads(zookeeper.get(znodes.CONTROLLER)[0])["brokerid"])


def _await_other_owner(zookeeper: KazooClient, active: int) -> float:
    """Return when /controller no longer named that node."""

    def is_other() -> bool:
        try:
            return _controller(zookeeper) != active
        except KazooException:  # for a moment no controller has it
            return True

    _await(is_other, f"{active} is the controller no longer")
    return time.monotonic()


def _await_led(system: System, brokers: Sequence[int], partitions: Sequence[Place]) -> None:
    """Return once each partition is served by a leader among these brokers."""
    missing = set(partitions)

    def all_led() -> bool:
        for broker in brokers:
            if missing:
                missing.difference_update(_served(system.endpoint(broker), sorted(missing)))
        return not missing

    _await(all_led, f"leaders of all {len(partitions)} partitions")


def _served(endpoint: Endpoint, partitions: Sequence[Place]) -> list[Place]:
    """Return the partitions that the broker serves as their leader."""
    asked = tuple(ListOffsetsPartition(*each, LATEST_TIMESTAMP) for each in partitions)
    try:
        with WireClient(endpoint) as client:
            found = client.call(ListOffsetsRequest(CONSUMER, asked)).partitions
    except (OSError, ConnectionClosed):
        return []
    return [(each.topic, each.partition) for each in found if each.error is ErrorCode.NONE]


def _await(holds: Callable[[], bool], what: str) -> None:
    measures.wait_until(holds, WITHIN_S, what)


def _markdown(result: Result, partitions: int, topics: int) -> str:
    many = "" if topics == 1 else f" in {topics} topics"
    lines = [
        f"Measured {result.date}, {partitions:,} partitions{many}. Cells: min / median / max (n).",
        "",
        machine_line(result.machine),
        "",
        *markdown_table(heading(result), table_rows(result, MEASURES)),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    run_command("scale", bench)
