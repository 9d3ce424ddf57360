"""`python -m bench.pipeline.campaign_cost`: the cost of running schedules on Spark.

The same schedules run by Spark with one and with two workers, and by the bare process pool of
`highwater sim run` with one and with two. Each way is warm when its time begins: its processes run
and have imported the simulator. Ways take turns, so that other load on the machine disturbs all of
them. Figures are compared within one round only. Needs the extra.

Wall clock, for Spark: from a group's begin until its rows are kept. For the pool: until the last
summary has arrived. CPU: of the schedules themselves, judging included; and of all processes of the
way, which adds the cost of Spark's JVM and of sending rows.
"""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from bench.command import result_name, run_command, write_result
from bench.machine import Machine, describe_machine, load_average
from bench.report import machine_line, markdown_table
from bench.summary import Summary, format_summary, summarize
from highwater.errors import HarnessError
from highwater.output import say
from highwater.search.campaign_session import RUN_ON
from highwater.search.pool import Lost, Pool
from highwater.search.schedule_rows import rows_of
from highwater.search.searching import CHUNK_LENGTH
from highwater_core.config import Preset
from highwater_pipeline.campaign.running import Work, run_groups
from highwater_pipeline.campaign.shipping import digest_of
from highwater_pipeline.campaign.state import GroupReceipt, Settings
from highwater_pipeline.campaign.tables import DATA_VERSION
from highwater_pipeline.session import spark_session
from highwater_simulator.generate import Family
from highwater_simulator.search import Chunk, chunks_of, schedules_of

FAMILIES = tuple(Family)
WARMING_SEEDS = 8
WARMING_FROM = 10_000_000
"""Seeds that are not measured."""
WORKERS = (1, 2)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """One way's measured schedules in one round. Units: seconds; cpu_s of the schedules alone."""

    way: str
    wall_s: float
    cpu_s: float
    all_cpu_s: float
    events: int


@dataclass(frozen=True, slots=True)
class CampaignCost:
    """ratios: of each comparison, over the rounds. machine: during the rounds."""

    date: str
    schedules: int
    rounds: int
    machine: Machine
    costs: tuple[Cost, ...]
    ratios: dict[str, Summary]


def measure_spark(workers: int, first_seed: int, seeds: int) -> Cost:
    """Measure one group in a session with this number of workers, warmed by another group."""
    with tempfile.TemporaryDirectory() as folder, spark_session(f"local[{workers}]") as spark:

        def run(name: str, first: int, count: int) -> GroupReceipt:
            settings = Settings(
                first_seed=first,
                seeds=count,
                families=tuple(str(family) for family in FAMILIES),
                preset=Preset.FENCED,
                planted="",
                code=digest_of(RUN_ON),
                data_version=DATA_VERSION,
                group_length=count * len(FAMILIES),
            )
            kept: list[GroupReceipt] = []
            work = Work(functools.partial(rows_of, settings))
            run_groups(spark, Path(folder), name, settings, work, kept.append)
            return kept[0]

        run("warming", WARMING_FROM, WARMING_SEEDS * workers)
        before_s = _family_cpu_s()
        receipt = run("measured", first_seed, seeds)
        all_cpu_s = _family_cpu_s() - before_s
    return Cost(
        f"Spark, {workers}", receipt.wall_s, receipt.cpu_ns / 1e9, all_cpu_s, receipt.events
    )


def measure_pool(jobs: int, first_seed: int, seeds: int) -> Cost:
    """Measure the same schedules by the bare pool with jobs processes, warmed by other schedules.

    Raises:
        HarnessError: a schedule was lost, so that fewer ran than on Spark.
    """
    with Pool(jobs) as pool:
        for _ in pool.run(_chunks(WARMING_FROM, WARMING_SEEDS * jobs)):
            pass
        before_s, began_s = _family_cpu_s(), time.monotonic()
        cpu_ns = events = 0
        for _, outcome in pool.run(_chunks(first_seed, seeds)):
            if isinstance(outcome, Lost):
                raise HarnessError(f"{outcome.schedule}: {outcome.why}")
            cpu_ns += outcome.cpu_ns
            events += outcome.events
        wall_s = time.monotonic() - began_s
        all_cpu_s = _family_cpu_s() - before_s
    return Cost(f"pool, {jobs}", wall_s, cpu_ns / 1e9, all_cpu_s, events)


def _chunks(first_seed: int, seeds: int) -> list[Chunk]:
    schedules = schedules_of(first_seed, seeds * len(FAMILIES), FAMILIES)
    return list(chunks_of(schedules, Chunk(()), CHUNK_LENGTH))


def _family_cpu_s() -> float:
    """Return the CPU time of this process and its living descendants, threads included.

    Ended processes count too if their parents waited for them.
    """
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        # From the third field on: state, parent; user, system, and both of awaited children.
        stats[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    own, ticks = os.getpid(), 0
    for process in stats:
        ancestor = process
        while ancestor != own and ancestor in stats:
            ancestor = stats[ancestor][0]
        ticks += stats[process][1] if ancestor == own else 0
    return ticks / _TICKS_PER_S


def ratios_of(rounds: Sequence[Sequence[Cost]]) -> dict[str, Summary]:
    """Return each comparison's ratio of one round's figures, summed up over the rounds."""
    compared: dict[str, Callable[[dict[str, Cost]], float]] = {
        "speed-up from 1 to 2, Spark": lambda at: at["Spark, 1"].wall_s / at["Spark, 2"].wall_s,
        "speed-up from 1 to 2, pool": lambda at: at["pool, 1"].wall_s / at["pool, 2"].wall_s,
        "wall clock, Spark to pool, 1": lambda at: at["Spark, 1"].wall_s / at["pool, 1"].wall_s,
        "wall clock, Spark to pool, 2": lambda at: at["Spark, 2"].wall_s / at["pool, 2"].wall_s,
        "a schedule's own CPU, Spark to pool, 1": lambda at: (
            at["Spark, 1"].cpu_s / at["pool, 1"].cpu_s
        ),
        "all CPU, Spark to pool, 1": lambda at: at["Spark, 1"].all_cpu_s / at["pool, 1"].all_cpu_s,
        "all CPU, Spark to pool, 2": lambda at: at["Spark, 2"].all_cpu_s / at["pool, 2"].all_cpu_s,
    }
    by_way = [{cost.way: cost for cost in costs} for costs in rounds]
    return {name: summarize([of(at) for at in by_way]) for name, of in compared.items()}


def measure_round(number: int, first_seed: int, seeds: int) -> list[Cost]:
    """Measure every way once, in reverse order in every other round.

    Raises:
        HarnessError: the ways ran different schedules.
    """
    ways = [(measure, workers) for workers in WORKERS for measure in (measure_pool, measure_spark)]
    costs = []
    for measure, workers in ways if number % 2 == 0 else reversed(ways):
        cost = measure(workers, first_seed, seeds)
        a_minute = 60 * seeds * len(FAMILIES) / cost.wall_s
        say(f"round {number + 1}: {cost.way}: {cost.wall_s:.1f} s, {a_minute:,.0f} a minute")
        costs.append(cost)
    if len({cost.events for cost in costs}) > 1:
        raise HarnessError(f"equal schedules had different events: {costs}")
    return costs


def table_rows(costs: Sequence[Cost], schedules: int) -> list[list[str]]:
    """Return a row for each way: schedules a second, a schedule's own CPU and its total CPU."""
    rows = []
    for way in dict.fromkeys(cost.way for cost in costs):
        own = [cost for cost in costs if cost.way == way]
        measures = (
            [schedules / cost.wall_s for cost in own],
            [1e3 * cost.cpu_s / schedules for cost in own],
            [1e3 * cost.all_cpu_s / schedules for cost in own],
        )
        rows.append([way, *(format_summary(summarize(values)) for values in measures)])
    return rows


def measure(
    seeds: Annotated[int, typer.Option(min=1, help="Each runs in every family.")] = 80,
    rounds: Annotated[int, typer.Option(min=1, help="How often every way is measured.")] = 3,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
) -> None:
    """Measure schedules on Spark beside the bare process pool, with one worker and with two."""
    load = load_average()
    measured = [measure_round(number, first, seeds) for number in range(rounds)]
    costs = tuple(cost for each in measured for cost in each)
    date = datetime.now(UTC)
    result = CampaignCost(
        date=f"{date:%Y-%m-%d %H:%M} UTC",
        schedules=seeds * len(FAMILIES),
        rounds=rounds,
        machine=describe_machine("none", "none", load),
        costs=costs,
        ratios=ratios_of(measured),
    )
    names = ["workers", "schedules a second", "ms CPU of a schedule", "ms of all CPU a schedule"]
    lines = [
        f"{result.schedules} schedules, measured {result.date}; min / median / max (n).",
        "",
        machine_line(result.machine),
        "",
        *markdown_table(names, table_rows(costs, result.schedules)),
        "",
        *markdown_table(
            ["in one round", "ratio"],
            [[name, format_summary(summary)] for name, summary in result.ratios.items()],
        ),
    ]
    print("\n".join(lines))
    say(str(write_result(result, f"campaign-cost-{result_name(date)}")))


if __name__ == "__main__":
    run_command("bench.pipeline.campaign_cost", measure)
