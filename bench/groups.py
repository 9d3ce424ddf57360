"""`python -m bench.groups`: a group coordinator's times for commits, rebalances and its load.

Three brokers, one offsets partition of three replicas; with --kafka beside Apache Kafka 3.9.1, in
turns. Both wait for no more members of an empty group (group.initial.rebalance.delay.ms=0).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from bench import group_clients, measures
from bench.apache_kafka.system import ApacheKafkaSystem
from bench.command import run_command
from bench.group_clients import Clients, Singles, coordinator_of
from bench.in_turns import Samples, measure_in_turns, write_between
from bench.report import (
    Result,
    heading,
    machine_line,
    markdown_table,
    table_rows,
)
from bench.systems import BROKERS, HighwaterSystem, System
from bench.targets import Better, Measure
from bench.zookeeper import await_gone, zookeeper_of
from highwater.cluster.wire_client import ConnectionClosed, WireClient
from highwater.output import say
from highwater_core import znodes
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint, NodeId
from highwater_wire.kafka.messages import KafkaRequest

SESSION_TIMEOUT_MS = 6_000
WITHIN_S = 120.0
CLIENTS = 16
LASTS_S = 5.0
SIZES = (1, 10, 50)
REBALANCES = 10
GROUPS, PARTITIONS = 1_000, 100
"""Offsets that a new coordinator loads: for each group one in each partition."""

COMMITS = Measure("commits", "commits of one offset", "/s", Better.HIGHER)
FETCHES = Measure("fetches", "fetches of one committed offset", "/s", Better.HIGHER)
HEARTBEATS = Measure("heartbeats", "heartbeats", "/s", Better.HIGHER)
CYCLES = Measure("cycles", "groups of one formed and left", "/s", Better.HIGHER)
LOAD = Measure("load", f"{GROUPS * PARTITIONS:,} offsets served again", "s")
MARKS = "<!-- bench groups: begin -->", "<!-- bench groups: end -->"


def rebalance_measure(members: int) -> Measure:
    return Measure(f"rebalance_{members}", f"a rebalance, members: {members}", "ms")


MEASURES = (COMMITS, FETCHES, HEARTBEATS, CYCLES, *map(rebalance_measure, SIZES), LOAD)


def bench(
    kafka: Annotated[bool, typer.Option("--kafka", help="Apache Kafka too, in turns.")] = False,
    repeat: Annotated[int, typer.Option(help="Clusters of each system.", min=1)] = 3,
    into: Annotated[
        Path | None, typer.Option("--markdown", help="Write the table between the file's marks.")
    ] = None,
) -> None:
    """Measure group operations, commits, rebalances, and the load of a coordinator's offsets."""
    result = measure_in_turns("groups", _systems(kafka=kafka), repeat, measure, MEASURES)
    if into is not None:
        write_between(into, MARKS, _markdown(result))


def _systems(*, kafka: bool) -> list[System]:
    ours = HighwaterSystem({"offsets_topic_partitions": 1, "group_initial_rebalance_delay_ms": 0})
    theirs = {"offsets.topic.replication.factor": str(len(BROKERS))}
    return [ours, *([ApacheKafkaSystem(say, theirs)] if kafka else [])]


def measure(system: System) -> Samples:
    """Return the samples of each of MEASURES, of a cluster of its own."""
    samples: dict[str, Sequence[float]] = {}
    system.start(SESSION_TIMEOUT_MS)
    try:
        topic = measures.new_topic(system.bootstrap, PARTITIONS, WITHIN_S)
        coordinator = coordinator_of(_endpoints(system), "any")
        samples.update(_requests(coordinator, topic))
        for members in SIZES:
            times = group_clients.rebalance_times(coordinator, f"of-{members}", members, REBALANCES)
            samples[rebalance_measure(members).key] = [time_s * 1e3 for time_s in times]
        samples[LOAD.key] = [_load(system, coordinator, topic)]
    finally:
        system.stop()
    for key, values in samples.items():
        say(f"{system.name}: {key}: {values[-1]:,.2f}")
    return samples


def _endpoints(system: System) -> list[Endpoint]:
    return [system.endpoint(broker) for broker in BROKERS]


def _requests(coordinator: Endpoint, topic: str) -> Samples:
    with Clients(coordinator, CLIENTS) as clients:
        singles = Singles(clients, "single")
        singles.form()
        numbers = range(CLIENTS)

        def commits(number: int) -> Sequence[KafkaRequest]:
            return [group_clients.commit(f"alone-{each}", topic, [0], number) for each in numbers]

        def fetches(number: int) -> Sequence[KafkaRequest]:
            return [group_clients.fetch(f"alone-{each}", topic, [0]) for each in numbers]

        rates = {
            COMMITS.key: [clients.per_second(commits, LASTS_S)],
            FETCHES.key: [clients.per_second(fetches, LASTS_S)],
            HEARTBEATS.key: [clients.per_second(singles.heartbeats, LASTS_S)],
        }
        singles.leave()
        return rates | {CYCLES.key: [_cycles_per_second(singles)]}


def _cycles_per_second(singles: Singles) -> float:
    began_s, cycles = time.monotonic(), 0
    while (took_s := time.monotonic() - began_s) < LASTS_S:
        singles.form()
        singles.leave()
        cycles += 1
    return cycles * CLIENTS / took_s


# ---------------------------------------------------------------- the load of a new coordinator


def _load(system: System, coordinator: Endpoint, topic: str) -> float:
    """Return the seconds from the end of a killed coordinator's session to the last group served.

    Each group's offsets are fetched, in turn, from its new coordinator.
    """
    names = [f"loaded-{number}" for number in range(GROUPS)]
    with WireClient(coordinator, timeout_s=WITHIN_S) as client:
        for offset, name in enumerate(names):
            answer = client.call(group_clients.commit(name, topic, range(PARTITIONS), offset))
            group_clients.require_success(answer)
    killed = next(each for each in BROKERS if system.endpoint(each) == coordinator)
    survivors = [system.endpoint(each) for each in BROKERS if each != killed]
    with zookeeper_of(system) as zookeeper, ThreadPoolExecutor(1) as pool:
        gone = pool.submit(await_gone, zookeeper, znodes.broker_path(NodeId(killed)), WITHIN_S)
        system.kill_broker(killed)
        began_s = gone.result()
        measures.wait_until(
            lambda: any(_served(each, names[-1], topic, GROUPS - 1) for each in survivors),
            WITHIN_S,
            "the offsets are loaded",
        )
        return time.monotonic() - began_s


def _served(broker: Endpoint, group_id: str, topic: str, offset: int) -> bool:
    """Return whether the broker returns the group's offsets, as they were committed.

    Raises:
        ValueError: it returns another offset.
    """
    try:
        with WireClient(broker) as client:
            answer = client.call(group_clients.fetch(group_id, topic, range(PARTITIONS)))
    except (OSError, ConnectionClosed):
        return False
    (group,) = answer.groups
    if group.error is not ErrorCode.NONE:
        return False
    told = {each.offset for each in group.partitions}
    if told != {offset}:
        raise ValueError(f"group {group_id!r} was told offsets {sorted(told)}, not {offset}")
    return True


def _markdown(result: Result) -> str:
    return "\n".join(
        [
            f"Measured {result.date}, {CLIENTS} clients for the rates. "
            "Cells: min / median / max (n).",
            "",
            machine_line(result.machine),
            "",
            *markdown_table(heading(result), table_rows(result, MEASURES)),
        ]
    )


if __name__ == "__main__":
    run_command("groups", bench)
