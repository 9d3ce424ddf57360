"""Lets an engine's process check made tables, goes on where it dies, and compares the answers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from bench.pipeline.checks_cost import CHECKS_OF, START
from bench.pipeline.cost import Cost, EngineName, Job
from bench.pipeline.made_tables import Shape
from highwater.errors import HarnessError
from highwater.output import say
from highwater_pipeline.checks.acknowledged_records import CHECK as LOSSES


@dataclass(frozen=True, slots=True)
class Measured:
    """The cost of an engine's checks on tables of a shape. whole_s: the time of its processes."""

    shape: Shape
    engine: EngineName
    whole_s: float
    costs: tuple[Cost, ...]


def measure(shape: Shape, job: Job) -> Measured:
    """Return the cost of the job's checks, as far as the engine has them.

    Raises:
        HarnessError: the engine does not start.
    """
    own = tuple(check for check in job.checks if check in CHECKS_OF[job.engine])
    began, costs = time.perf_counter(), []
    for cost in _costs(msgspec.structs.replace(job, checks=own)):
        costs.append(cost)
        took = f"{cost.seconds:.2f} s, {cost.peak_bytes / 2**20:.0f} MiB"
        say(f"{shape.rows:,} rows, {job.engine}: {cost.check}: {cost.failure or took}")
    return Measured(shape, job.engine, time.perf_counter() - began, tuple(costs))


def _costs(job: Job) -> Iterator[Cost]:
    """Yield the costs as they come; after a check that ended its process, another does the rest."""
    left = job.checks
    while left:
        to_tell = [START, *left]
        began = time.perf_counter()
        with _process(msgspec.structs.replace(job, checks=left)) as process:
            for line in process.stdout or ():
                yield msgspec.json.decode(line, type=Cost)
                del to_tell[0]
                began = time.perf_counter()
        if to_tell[:1] == [START]:
            raise HarnessError(f"{job.engine} does not start: {process.returncode}")
        if to_tell and process.returncode:
            failure = f"its process ended with {process.returncode}"
            yield Cost(to_tell.pop(0), time.perf_counter() - began, failure=failure)
        left = tuple(to_tell)


@contextmanager
def _process(job: Job) -> Iterator[subprocess.Popen[str]]:
    """Start the engine's process; it ends with the block, and is killed if that fails."""
    text = msgspec.json.encode(job).decode()
    command = [sys.executable, "-m", "bench.pipeline.checks_cost", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def compare(shape: Shape, measured: Sequence[Measured]) -> None:
    """Fail unless all engines found and examined the same: else their times cannot be compared.

    Raises:
        HarnessError: two engines differ, or planted violations were not found.
    """
    answers: dict[str, set[tuple[int, int]]] = {}
    for each in measured:
        for cost in each.costs:
            if not cost.failure:
                answers.setdefault(cost.check, set()).add((cost.findings, cost.examined))
    differing = {check: sorted(told) for check, told in answers.items() if len(told) > 1}
    if differing:
        raise HarnessError(f"the engines differ at {shape}: {differing}")
    lost = {findings for findings, _ in answers.get(LOSSES.name, set())}
    if not shape.lost or lost - {shape.lost}:
        raise HarnessError(f"{shape.lost} lost records at {shape}, and {sorted(lost)} were found")
