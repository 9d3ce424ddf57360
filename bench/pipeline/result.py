"""The results of the bench of the pipeline as tables. Makes text; measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.machine import Machine
from bench.pipeline.checks_cost import START
from bench.pipeline.cost import Cost, EngineName
from bench.pipeline.made_tables import HOT_OF_TEN, Shape
from bench.pipeline.measuring import Measured
from bench.pipeline.seven import ROWS_PER_S, SEVEN, TOGETHER_ROWS, TOGETHER_S
from bench.report import markdown_table
from bench.summary import format_number

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """measured: all engines of a shape follow each other, in the same order for each shape."""

    date: str
    machine: Machine
    measured: tuple[Measured, ...]


def markdown(result: PipelineResult) -> list[str]:
    """Return the lines of all tables."""
    machine = result.machine
    lines = [
        f"{result.date}, {machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, "
        f"Python {machine.python}, {machine.client}; load average "
        f"{machine.load_average_start:.2f} before, {machine.load_average_end:.2f} after."
    ]
    for of_shape in _by_shape(result.measured):
        table = markdown_table(columns(of_shape), rows(of_shape))
        lines += ["", f"{_title(of_shape[0].shape)}:", "", *table]
        lines += [f"\n{line}" for line in notes(of_shape)]
    return lines


def columns(of_shape: Sequence[Measured]) -> list[str]:
    units = ("s", "M rows/s", "MiB")
    return ["check", *(f"{each.engine}, {unit}" for unit in units for each in of_shape)]


def rows(of_shape: Sequence[Measured]) -> list[list[str]]:
    """Return the cells: the start, the seven, their sums, the other checks, the whole process.

    Rows a second count the rows of all tables, though a check may read a part of them.
    """
    costs = _by_check(of_shape)
    names = list(dict.fromkeys(name for each in costs for name in each if name != START))
    seven = [name for name in SEVEN if name in names]
    shared = [name for name in seven if all(_is_done(each, name) for each in costs)]

    def of_check(name: str) -> list[str]:
        own = [each.get(name) for each in costs]
        memory = [
            NOTHING if cost is None else format_number(cost.peak_bytes / 2**20) for cost in own
        ]
        rates = [_millions_per_s(of_shape[0].shape, name, cost) for cost in own]
        return [name, *map(_seconds, own), *rates, *memory]

    def alone(title: str, seconds: Sequence[float | None]) -> list[str]:
        cells = [NOTHING if each is None else format_number(each) for each in seconds]
        return [title, *cells, *[""] * (2 * len(of_shape))]

    return [
        of_check(START),
        *(of_check(name) for name in seven),
        alone(f"these {len(seven)} together", [_sum(each, seven) for each in costs]),
        alone(f"the {len(shared)} that all have", [_sum(each, shared) for each in costs]),
        *(of_check(name) for name in names if name not in SEVEN),
        alone("the process, all that it has", [each.whole_s for each in of_shape]),
    ]


def notes(of_shape: Sequence[Measured]) -> list[str]:
    """Return the outcomes of Spark's targets, and the reasons of checks without an answer."""
    found = []
    for each, costs in zip(of_shape, _by_check(of_shape), strict=True):
        shape = each.shape
        if each.engine is EngineName.SPARK:
            own = [costs[name] for name in SEVEN if _is_done(costs, name)]
            fast = sum(shape.rows / cost.seconds >= ROWS_PER_S for cost in own)
            found.append(f"{ROWS_PER_S / 1e6:g} M rows/s or more: {fast} of the seven in Spark.")
            total = _sum(costs, tuple(SEVEN))
            if shape.rows == TOGETHER_ROWS and total is not None:
                found.append(f"The seven together: {total:.0f} s in Spark, {TOGETHER_S} wanted.")
        found += [
            f"{each.engine}, {cost.check}: {cost.failure}" for cost in each.costs if cost.failure
        ]
    return found


Costs = Mapping[str, Cost]
"""Of one engine, by the check's name."""


def _by_check(of_shape: Sequence[Measured]) -> list[Costs]:
    return [{cost.check: cost for cost in each.costs} for each in of_shape]


def _is_done(costs: Costs, name: str) -> bool:
    return name in costs and not costs[name].failure


def _sum(costs: Costs, names: Sequence[str]) -> float | None:
    """Return the seconds of all of them; None unless the engine has done each."""
    done = [costs[name].seconds for name in names if _is_done(costs, name)]
    return sum(done) if names and len(done) == len(names) else None


def _seconds(cost: Cost | None) -> str:
    if cost is None:
        return NOTHING
    return "failed" if cost.failure else format_number(cost.seconds)


def _millions_per_s(shape: Shape, name: str, cost: Cost | None) -> str:
    if name == START or cost is None or cost.failure:
        return NOTHING
    return format_number(shape.rows / cost.seconds / 1e6)


def _by_shape(measured: Sequence[Measured]) -> list[list[Measured]]:
    by_shape: dict[Shape, list[Measured]] = {}
    for each in measured:
        by_shape.setdefault(each.shape, []).append(each)
    return list(by_shape.values())


def _title(shape: Shape) -> str:
    how = f"{HOT_OF_TEN} of 10 records in one of" if shape.is_hot else "evenly over"
    return f"{shape.rows:,} rows, {how} {shape.partitions} partitions"
