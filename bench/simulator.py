"""`python -m bench.simulator`: how fast the simulator is, on one core, with all checks on.

Simulated seconds and events for each second of CPU time: three brokers, fifty acks=all produces
per simulated second, no faults, every event judged; with one partition and with a hundred. Then
schedules a minute: generated ones, as the search runs them. Each figure is the best of some runs:
other load on the machine can only make a run slower.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from highwater_chaos.plan import Plan, Producer, Topic, Workload
from highwater_simulator.generate import Family, generate
from highwater_simulator.runner import RunResult, run_plan

PRODUCES_PER_S = 50
SIMULATED_MS = 20_000
REPETITIONS = 3
SCHEDULES = 60
TARGET_SIMULATED_PER_CPU = 60
TARGET_RATIO = 0.8


@dataclass(frozen=True, slots=True)
class Speed:
    """One kind of run; every figure is for one CPU second but the counts of a run."""

    name: str
    simulated_per_cpu: float
    events_per_cpu_s: float
    runs_per_minute: float
    events: int
    acknowledged: int


def steady_plan(partitions: int) -> Plan:
    """Return a plan without faults, to measure a cluster at work."""
    return Plan(
        seed=1,
        workload=Workload(
            topics=(Topic(partitions=partitions, replication_factor=3),),
            producers=(Producer(rate_per_s=PRODUCES_PER_S, max_in_flight=5),),
            consumers=(),
        ),
        quiet_after_ms=SIMULATED_MS,
    )


def measure(name: str, plans: list[Plan]) -> Speed:
    """Run the plans one after the other.

    Raises:
        RuntimeError: a run had a violation, so that it measured something else.
    """
    gc.collect()
    began_s = time.process_time()
    results = [run_plan(plan) for plan in plans]
    cpu_s = time.process_time() - began_s
    for result in results:
        if not result.passed:
            raise RuntimeError(f"{result.plan.title}: {result.violation}")
    return _speed(name, results, cpu_s)


def _speed(name: str, results: list[RunResult], cpu_s: float) -> Speed:
    events = sum(result.events for result in results)
    return Speed(
        name=name,
        simulated_per_cpu=sum(result.simulated_ns for result in results) / 1e9 / cpu_s,
        events_per_cpu_s=events / cpu_s,
        runs_per_minute=60 * len(results) / cpu_s,
        events=events,
        acknowledged=sum(result.acknowledged for result in results),
    )


def best_of(name: str, plans: list[Plan], repetitions: int = REPETITIONS) -> Speed:
    runs = [measure(name, plans) for _ in range(repetitions)]
    return max(runs, key=lambda run: run.simulated_per_cpu)


def measure_all() -> list[Speed]:
    """Return the speed of a steady cluster with 1 and 100 partitions, and of schedules."""
    found = [best_of(f"{count} partitions", [steady_plan(count)]) for count in (1, 100)]
    for family in Family:
        plans = [generate(seed, family=family) for seed in range(SCHEDULES)]
        found.append(best_of(f"schedules, {family}", plans, repetitions=1))
    return found


def main() -> None:
    speeds = measure_all()
    ratio = speeds[1].events_per_cpu_s / speeds[0].events_per_cpu_s
    if "--json" in sys.argv[1:]:
        print(json.dumps({"speeds": [asdict(speed) for speed in speeds], "ratio": ratio}))
        return
    table = Table("run", "simulated s", "events", "runs a minute", title="for one CPU second")
    for speed in speeds:
        table.add_row(
            speed.name,
            f"{speed.simulated_per_cpu:.1f}",
            f"{speed.events_per_cpu_s:,.0f}",
            f"{speed.runs_per_minute:.0f}",
        )
    console = Console()
    console.print(table)
    console.print(
        f"simulated s with one partition: target {TARGET_SIMULATED_PER_CPU}; events with 100 "
        f"partitions, of those with one: {ratio:.2f}, target {TARGET_RATIO}"
    )


if __name__ == "__main__":
    main()
