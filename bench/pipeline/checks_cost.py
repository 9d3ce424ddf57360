"""One engine's checks over made tables, one after the other: run as a process of its own.

`python -m bench.pipeline.checks_cost JOB` prints a JSON line for the start, then one for each
check. It ends early, after that check's line, with a check that ended Spark's JVM.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import msgspec

from bench.pipeline.cost import Cost, Engine, EngineName, Job, cost_of, peak_bytes
from bench.pipeline.in_duckdb import TEXTS, duckdb_engine
from bench.pipeline.in_polars import QUERIES, polars_engine
from bench.pipeline.in_spark import IN_SPARK, spark_engine

START = "(start)"
"""The start, reported like a check."""
ENGINES: dict[EngineName, Callable[[Job], AbstractContextManager[Engine]]] = {
    EngineName.SPARK: spark_engine,
    EngineName.DUCKDB: duckdb_engine,
    EngineName.POLARS: polars_engine,
}
CHECKS_OF = {
    EngineName.SPARK: IN_SPARK,
    EngineName.DUCKDB: frozenset(TEXTS),
    EngineName.POLARS: frozenset(QUERIES),
}
"""By the engine, the checks that it has."""


def costs(job: Job) -> Iterator[Cost]:
    """Yield the cost of the start, then of each of the checks, all of which the engine has."""
    began = time.perf_counter()
    with ENGINES[job.engine](job) as engine:
        yield Cost(START, time.perf_counter() - began, peak_bytes=peak_bytes(engine.pid))
        for check in job.checks:
            yield cost_of(check, engine, job.within_s)


if __name__ == "__main__":
    for cost in costs(msgspec.json.decode(sys.argv[1], type=Job)):
        print(msgspec.json.encode(cost).decode(), flush=True)
        if cost.failure and not cost.peak_bytes:
            os._exit(0)  # a session whose JVM has ended cannot be closed
