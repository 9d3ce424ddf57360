"""The measures with their units, their repetitions, and Highwater's targets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.summary import Summary, ratio

MEBIBYTE = 1024 * 1024


class Part(StrEnum):
    """A part of the bench, which can be measured without the others."""

    START = "start"
    FAILOVER = "failover"
    PRODUCE = "produce"
    CONSUME = "consume"
    LATENCY = "latency"
    REQUESTS = "requests"
    MEMORY = "memory"


class Better(StrEnum):
    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table; `key` names its samples in the JSON."""

    key: str
    title: str
    unit: str
    better: Better = Better.LOWER


@dataclass(frozen=True, slots=True)
class Load:
    """Records of one size into a topic of so many partitions."""

    record_bytes: int
    partition_count: int
    total_bytes: int

    @property
    def name(self) -> str:
        size = "1 KiB" if self.record_bytes == 1024 else f"{self.record_bytes} B"
        partitions = "1 partition" if self.partition_count == 1 else f"{self.partition_count} p."
        return f"{size}, {partitions}"

    @property
    def key(self) -> str:
        return f"{self.record_bytes}b_{self.partition_count}p"


@dataclass(frozen=True, slots=True)
class Repetitions:
    """The number of repetitions of each measure."""

    bring_ups: int
    failovers: int
    session_timeouts_ms: Sequence[int]
    loads: Sequence[Load]
    load_repetitions: int
    warm_up_bytes: int
    latency_samples: int
    request_seconds: float
    request_repetitions: int


def make_repetitions(*, quick: bool) -> Repetitions:
    """Return those of a whole bench (12 minutes for two systems) or of a quick one (4)."""
    scale = 2 if quick else 3
    return Repetitions(
        bring_ups=2 if quick else 5,
        failovers=2 if quick else 10,
        session_timeouts_ms=(2_000, 6_000),
        loads=(
            Load(1024, 1, scale * 64 * MEBIBYTE),
            Load(1024, 12, scale * 64 * MEBIBYTE),
            Load(100, 1, scale * 12 * MEBIBYTE),
            Load(100, 12, scale * 12 * MEBIBYTE),
        ),
        load_repetitions=2 if quick else 4,
        warm_up_bytes=128 * MEBIBYTE,
        latency_samples=1_000 if quick else 2_000,
        request_seconds=3.0 if quick else 5.0,
        request_repetitions=2 if quick else 3,
    )


# ---------------------------------------------------------------- rows

BRING_UP_PHASES = {
    "images": "images looked up",
    "network": "network created",
    "containers": "containers started",
    "ready": "brokers serve",
    "first_record": "topic created, record acknowledged",
}
MEMORY_FRESH = Measure("memory_fresh", "private memory of a broker, fresh", "MB")
MEMORY_LOADED = Measure("memory_loaded", "private memory of a broker, after the load", "MB")
LATENCY_P50 = Measure("latency_p50", "one record at a time, p50", "ms")
LATENCY_P99 = Measure("latency_p99", "one record at a time, p99", "ms")
REQUESTS = Measure("requests", "one-record requests, 50 in flight", "requests/s", Better.HIGHER)
BRING_UP = Measure("bring_up", "start to the first acknowledged record", "s")


FAST_FAILOVER = Measure(
    "failover_fast", "leader killed to a new acknowledgement, fast_failure_detection", "s"
)


def phase_measure(phase: str) -> Measure:
    return Measure(f"bring_up_{phase}", f"… {BRING_UP_PHASES[phase]}", "s")


def failover_measure(session_timeout_ms: int) -> Measure:
    seconds = f"{session_timeout_ms / 1000:g} s"
    return Measure(
        f"failover_{session_timeout_ms}",
        f"leader killed to a new acknowledgement, session {seconds}",
        "s",
    )


def produce_megabytes(load: Load) -> Measure:
    return Measure(f"produce_mb_{load.key}", f"produce, {load.name}", "MB/s", Better.HIGHER)


def produce_records(load: Load) -> Measure:
    return Measure(
        f"produce_records_{load.key}", f"produce, {load.name}", "k records/s", Better.HIGHER
    )


def consume_megabytes(load: Load) -> Measure:
    return Measure(f"consume_mb_{load.key}", f"consume, {load.name}", "MB/s", Better.HIGHER)


def consume_records(load: Load) -> Measure:
    return Measure(
        f"consume_records_{load.key}", f"consume, {load.name}", "k records/s", Better.HIGHER
    )


def rows(repetitions: Repetitions) -> list[Measure]:
    """Return every measure in the order of the table."""
    loads = repetitions.loads
    return [
        BRING_UP,
        *map(phase_measure, BRING_UP_PHASES),
        *map(failover_measure, repetitions.session_timeouts_ms),
        FAST_FAILOVER,
        *(make(load) for load in loads for make in (produce_megabytes, produce_records)),
        *(make(load) for load in loads for make in (consume_megabytes, consume_records)),
        LATENCY_P50,
        LATENCY_P99,
        REQUESTS,
        MEMORY_FRESH,
        MEMORY_LOADED,
    ]


# ---------------------------------------------------------------- targets


@dataclass(frozen=True, slots=True)
class Outcome:
    """A target beside its measured value; met is None without a value."""

    target: str
    measured: str
    met: bool | None


def judge_targets(
    ours: dict[str, Summary], theirs: dict[str, Summary] | None, repetitions: Repetitions
) -> list[Outcome]:
    """Return each target's outcome. theirs are Apache Kafka's, of the same run."""
    outcomes = [_at_most(ours, BRING_UP, 3.0, "first acknowledged record after at most 3 s")]
    for session_timeout_ms in repetitions.session_timeouts_ms:
        outcomes += _failover_outcomes(ours, session_timeout_ms)
    outcomes.append(
        _at_most(ours, FAST_FAILOVER, 0.5, "failover with fast_failure_detection: median 0.5 s")
    )
    outcomes.append(
        _at_most(ours, MEMORY_LOADED, 80.0, "private memory under 80 MB after the load", worst=True)
    )
    for load in repetitions.loads:
        if load.record_bytes == 1024:
            outcomes.append(_twice_theirs(ours, theirs, produce_megabytes(load)))
    found = ours.get(REQUESTS.key)
    outcomes.append(
        Outcome(
            "5,000 one-record requests a second",
            f"{found.median:,.0f}" if found else "not measured",
            found.median >= 5_000 if found else None,
        )
    )
    outcomes.append(_at_most(ours, LATENCY_P50, 1.0, "p50 of one record at a time at most 1 ms"))
    return outcomes


def _at_most(
    ours: dict[str, Summary], measure: Measure, bound: float, target: str, *, worst: bool = False
) -> Outcome:
    found = ours.get(measure.key)
    if found is None:
        return Outcome(target, "not measured", None)
    value = found.maximum if worst else found.median
    return Outcome(target, f"{value:.2f} {measure.unit}", value <= bound)


def _failover_outcomes(ours: dict[str, Summary], session_timeout_ms: int) -> list[Outcome]:
    found = ours.get(failover_measure(session_timeout_ms).key)
    seconds = session_timeout_ms / 1000
    outcomes = []
    for name, value, slack in (
        ("median", found.median if found else None, 0.5),
        ("maximum", found.maximum if found else None, 1.0),
    ):
        target = f"failover, session {seconds:g} s: {name} at most {seconds + slack:g} s"
        if value is None:
            outcomes.append(Outcome(target, "not measured", None))
        else:
            outcomes.append(Outcome(target, f"{value:.2f} s", value <= seconds + slack))
    return outcomes


def _twice_theirs(
    ours: dict[str, Summary], theirs: dict[str, Summary] | None, measure: Measure
) -> Outcome:
    target = f"{measure.title}: at least 2 times Apache Kafka's MB/s"
    our_summary = ours.get(measure.key)
    their_summary = (theirs or {}).get(measure.key)
    times = ratio(our_summary, their_summary) if our_summary and their_summary else None
    if times is None:
        return Outcome(target, "not measured", None)
    return Outcome(target, f"{times:.2f} times", times >= 2)
