"""Measures systems in turns, so that other load on the machine disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from bench import measures, targets
from bench.summary import format_number
from bench.systems import System
from bench.targets import Load, Measure, Part, Repetitions

LOAD_SESSION_TIMEOUT_MS = 6_000
RECOVERED_WITHIN_S = 60.0
ALL_PARTS = frozenset(Part)
UNDER_LOAD = ALL_PARTS - {Part.START, Part.FAILOVER}
"""The parts that one cluster of each system serves."""

Say = Callable[[str], None]


class Samples:
    """The values by system and measure, in the order of measuring."""

    def __init__(self, say: Say) -> None:
        self.values: dict[str, dict[str, list[float]]] = {}
        self._say = say

    def add(self, system: System, measure: Measure, value: float, *, quietly: bool = False) -> None:
        self.values.setdefault(system.name, {}).setdefault(measure.key, []).append(value)
        if not quietly:
            self._say(f"{system.name}: {measure.title}: {format_number(value)} {measure.unit}")


def measure_all(
    systems: Sequence[System],
    repetitions: Repetitions,
    say: Say,
    parts: frozenset[Part] = ALL_PARTS,
    fast: System | None = None,
) -> Samples:
    """Take the parts' measures, and return the samples; no system is up afterwards.

    fast: the first system with fast_failure_detection, whose failovers are measured too.
    """
    samples = Samples(say)
    for number in range(repetitions.bring_ups if Part.START in parts else 0):
        for system in systems:
            say(f"bring-up {number + 1} of {repetitions.bring_ups}: {system.name}")
            measure_bring_up(system, samples)
    if parts & UNDER_LOAD:
        with _up(systems, LOAD_SESSION_TIMEOUT_MS, say):
            measure_load(systems, repetitions, samples, parts)
    for session_timeout_ms in repetitions.session_timeouts_ms if Part.FAILOVER in parts else ():
        with _up(systems, session_timeout_ms, say):
            measure = targets.failover_measure(session_timeout_ms)
            measure_failovers(systems, repetitions.failovers, measure, samples)
    if fast is not None and Part.FAILOVER in parts:
        with _up([fast], LOAD_SESSION_TIMEOUT_MS, say):
            measure_failovers([fast], repetitions.failovers, targets.FAST_FAILOVER, samples)
    return samples


@contextmanager
def _up(systems: Sequence[System], session_timeout_ms: int, say: Say) -> Iterator[None]:
    try:
        for system in systems:
            say(f"starting {system.name}, session timeout {session_timeout_ms} ms")
            system.start(session_timeout_ms)
        yield
    finally:
        for system in systems:
            system.stop()


# ---------------------------------------------------------------- bring-up


def measure_bring_up(system: System, samples: Samples) -> None:
    """Time a start, up to the first record that all replicas acknowledged, with its phases."""
    started = time.perf_counter()
    try:
        phases = dict(system.start(LOAD_SESSION_TIMEOUT_MS))
        served = time.perf_counter()
        measures.produce_one(system.bootstrap, measures.create_topic(system.bootstrap, 1))
        ended = time.perf_counter()
    finally:
        system.stop()
    phases["first_record"] = ended - served
    for phase, duration_s in phases.items():
        samples.add(system, targets.phase_measure(phase), duration_s, quietly=True)
    samples.add(system, targets.BRING_UP, ended - started)


# ---------------------------------------------------------------- load


def measure_load(
    systems: Sequence[System],
    repetitions: Repetitions,
    samples: Samples,
    parts: frozenset[Part] = ALL_PARTS,
) -> None:
    """Time produce, consume, single records and small requests, and read the brokers' memory.

    What memory is after the load needs the load, and what is consumed was produced.
    """
    if Part.MEMORY in parts:
        _measure_memory(systems, targets.MEMORY_FRESH, samples)
    if parts & {Part.PRODUCE, Part.CONSUME, Part.MEMORY}:
        for load in repetitions.loads:
            _measure_throughput(systems, load, repetitions, samples, parts)
    _measure_small_requests(systems, repetitions, samples, parts)
    if Part.MEMORY in parts:
        _measure_memory(systems, targets.MEMORY_LOADED, samples)


def _measure_memory(systems: Sequence[System], measure: Measure, samples: Samples) -> None:
    for system in systems:
        for size_bytes in system.broker_memory_bytes():
            samples.add(system, measure, size_bytes / 1e6)


def _measure_throughput(
    systems: Sequence[System],
    load: Load,
    repetitions: Repetitions,
    samples: Samples,
    parts: frozenset[Part],
) -> None:
    partitions, record_bytes = load.partition_count, load.record_bytes
    topics = [measures.new_topic(system.bootstrap, partitions) for system in systems]
    for system, topic in zip(systems, topics, strict=True):
        measures.produce_throughput(
            system.bootstrap, topic, partitions, record_bytes, repetitions.warm_up_bytes
        )
    for _ in range(repetitions.load_repetitions):
        for system, topic in zip(systems, topics, strict=True):
            found = measures.produce_throughput(
                system.bootstrap, topic, partitions, record_bytes, load.total_bytes
            )
            if Part.PRODUCE in parts:
                samples.add(system, targets.produce_megabytes(load), found.megabytes_per_second)
                thousands = found.records_per_second / 1e3
                samples.add(system, targets.produce_records(load), thousands, quietly=True)
    for _ in range(repetitions.load_repetitions if parts & {Part.CONSUME, Part.MEMORY} else 0):
        for system, topic in zip(systems, topics, strict=True):
            found = measures.consume_throughput(system.bootstrap, topic, partitions, record_bytes)
            if Part.CONSUME in parts:
                samples.add(system, targets.consume_megabytes(load), found.megabytes_per_second)
                thousands = found.records_per_second / 1e3
                samples.add(system, targets.consume_records(load), thousands, quietly=True)
    for system, topic in zip(systems, topics, strict=True):
        measures.delete_topic(system.bootstrap, topic)


def _measure_small_requests(
    systems: Sequence[System],
    repetitions: Repetitions,
    samples: Samples,
    parts: frozenset[Part],
) -> None:
    if not parts & {Part.LATENCY, Part.REQUESTS}:
        return
    topics = [measures.new_topic(system.bootstrap, 1) for system in systems]
    for system, topic in zip(systems, topics, strict=True):
        measures.one_record_requests(system.bootstrap, topic, 1.0)
    for _ in range(repetitions.request_repetitions):
        for system, topic in zip(systems, topics, strict=True) if Part.LATENCY in parts else ():
            latency = measures.one_at_a_time(system.bootstrap, topic, repetitions.latency_samples)
            samples.add(system, targets.LATENCY_P50, latency.p50_ms)
            samples.add(system, targets.LATENCY_P99, latency.p99_ms)
        for system, topic in zip(systems, topics, strict=True) if Part.REQUESTS in parts else ():
            rate = measures.one_record_requests(
                system.bootstrap, topic, repetitions.request_seconds
            )
            samples.add(system, targets.REQUESTS, rate)


# ---------------------------------------------------------------- failover


def measure_failovers(
    systems: Sequence[System], count: int, measure: Measure, samples: Samples
) -> None:
    """Kill the leader of a partition again and again, healing it in between."""
    topics = [measures.new_topic(system.bootstrap, 1) for system in systems]
    for _ in range(count):
        for system, topic in zip(systems, topics, strict=True):
            samples.add(system, measure, measure_failover(system, topic))


def measure_failover(system: System, topic: str) -> float:
    """Return the seconds from the kill to the first acknowledgement of a record sent after it.

    The clock starts before the request to kill. Only records that were sent after the process was
    certainly gone count. Ends with a full ISR.
    """
    leader = measures.leader_of(system.bootstrap, topic)
    watch = measures.AcknowledgementWatch(system.bootstrap, topic)
    watch.run_until(lambda: watch.first_sent_after(0.0) is not None, RECOVERED_WITHIN_S)

    def kill() -> tuple[float, float]:
        before = time.monotonic()
        system.kill_broker(leader)
        return before, time.monotonic()

    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        watch.run_until(
            lambda: killing.done() and watch.first_sent_after(killing.result()[1]) is not None,
            RECOVERED_WITHIN_S,
        )
    before, gone = killing.result()
    acknowledged = watch.first_sent_after(gone)
    watch.close()
    if acknowledged is None:
        raise TimeoutError(f"{system.name}: no acknowledgement after the leader's death")
    system.start_broker(leader)
    measures.wait_for_full_isr(system.bootstrap, topic, RECOVERED_WITHIN_S)
    return acknowledged - before
