"""A client that creates very many partitions at once: its duration, and others' waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from bench.hostile.scene import brought_up
from bench.hostile.watching import Prober, Waits
from bench.summary import format_number
from highwater.cluster.wire_client import WireClient
from highwater_core.errors import ErrorCode
from highwater_core.ids import Endpoint
from highwater_wire.kafka.messages import (
    CreateTopicsRequest,
    MetadataRequest,
    TopicToCreate,
)

TOPIC = "many"
_WITHIN_S = 600.0
_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Creation:
    """The time to create a topic of many partitions, in s, and others' waits meanwhile, in ms.

    answered_s: until CreateTopics was answered. led_s: until each broker's metadata names a
    leader of every partition. Waits: of single records' produces at the worst broker.
    """

    partitions: int
    replication_factor: int
    error: str
    answered_s: float
    led_s: float
    asked: int
    unanswered: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


def measure_creation(
    partitions: int, replication_factors: Sequence[int], say: Callable[[str], None]
) -> list[Creation]:
    """Return the measurements of each creation, each in a cluster of its own."""
    return [_measure(partitions, each, say) for each in replication_factors]


def _measure(partitions: int, replication_factor: int, say: Callable[[str], None]) -> Creation:
    with brought_up(say) as scene:
        probers = [
            Prober(endpoint, scene.target.topic, partition)
            for partition, endpoint in scene.led_partitions().items()
        ]
        for prober in probers:
            prober.start()
        try:
            began_s = time.monotonic()
            error = _create(scene.target.brokers[0], partitions, replication_factor)
            answered_s = time.monotonic() - began_s
            for endpoint in scene.target.brokers.values():
                _await_leaders(endpoint, partitions, began_s + _WITHIN_S)
            led_s = time.monotonic() - began_s
        finally:
            waits = [prober.stop() for prober in probers]
        found = _creation(partitions, replication_factor, error, answered_s, led_s, waits)
        say(f"{partitions} partitions, {replication_factor} replicas: led after {led_s:.1f} s")
        return found


def _creation(
    partitions: int,
    replication_factor: int,
    error: ErrorCode,
    answered_s: float,
    led_s: float,
    waits: Sequence[Waits],
) -> Creation:
    worst = max(waits, key=lambda each: each.at(99))
    all_ms = [ms for each in waits for ms in each.ms]
    return Creation(
        partitions,
        replication_factor,
        error.name,
        answered_s,
        led_s,
        len(all_ms),
        sum(each.failures for each in waits),
        worst.at(50),
        worst.at(99),
        max(all_ms, default=0.0),
    )


def _create(endpoint: Endpoint, partitions: int, replication_factor: int) -> ErrorCode:
    new = TopicToCreate(TOPIC, partitions, replication_factor)
    timeout_ms = int(_WITHIN_S * 1000)
    with WireClient(endpoint, timeout_s=_WITHIN_S) as client:
        (result,) = client.call(CreateTopicsRequest((new,), timeout_ms)).topics
    error: ErrorCode = result.error
    return error


def _await_leaders(endpoint: Endpoint, partitions: int, until_s: float) -> None:
    """Return once the broker knows a leader of each.

    Raises:
        TimeoutError: it does not until then.
    """
    for led in _led(endpoint):
        if led == partitions:
            return
        if time.monotonic() > until_s:
            raise TimeoutError(f"{endpoint} knows leaders of {led} of {partitions} partitions")
        time.sleep(_EVERY_S)


def _led(endpoint: Endpoint) -> Iterator[int]:
    with WireClient(endpoint, timeout_s=_WITHIN_S) as client:
        while True:
            (topic,) = client.call(MetadataRequest((TOPIC,))).topics
            yield sum(each.error is ErrorCode.NONE for each in topic.partitions)


def print_creation(console: Console, measured: Sequence[Creation]) -> None:
    table = Table(
        title="a topic of many partitions is created; others produce one record at a time"
    )
    for column in ("partitions", "replicas", "answered, s", "led, s", "p50, ms", "p99, ms"):
        table.add_column(column, justify="right")
    table.add_column("longest, ms", justify="right")
    table.add_column("wrong")
    for each in measured:
        wrong = [each.error] if each.error != ErrorCode.NONE.name else []
        if each.unanswered:
            wrong.append(f"{each.unanswered} unanswered")
        table.add_row(
            str(each.partitions),
            str(each.replication_factor),
            *map(
                format_number,
                (each.answered_s, each.led_s, each.p50_ms, each.p99_ms, each.longest_ms),
            ),
            ", ".join(wrong),
        )
    console.print(table)
