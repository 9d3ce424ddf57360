"""The pipeline's own checks, as `highwater pipeline run` asks them, one after the other."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bench.pipeline.cost import Answer, Engine, Job
from bench.pipeline.seven import LATENCIES
from highwater_pipeline.checks.findings import Check
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.judging import judge
from highwater_pipeline.metrics.sends import latencies
from highwater_pipeline.reading import read_tables
from highwater_pipeline.session import spark_session
from highwater_pipeline.tables import Tables

MEMORY = "4g"
IN_SPARK = frozenset({LATENCIES, *(check.name for check in CHECKS.values())})


@contextmanager
def spark_engine(job: Job) -> Iterator[Engine]:
    """Yield Spark in a JVM with MEMORY of heap."""
    with spark_session(memory=MEMORY, is_small=job.is_small, partitions=job.partitions) as spark:
        tables = read_tables(spark, Path(job.store), are_small=job.is_small)
        checks = {check.name: functools.partial(_ask, check, tables) for check in CHECKS.values()}
        yield Engine(
            pid=_java(),
            checks={**checks, LATENCIES: functools.partial(_latencies, tables)},
            stop=spark.interruptAll,
            # A JVM that has ended refuses its connection.
            failures=(PySparkException, Py4JError, ConnectionError),
        )


def _ask(check: Check, tables: Tables) -> Answer:
    judged = judge(check, tables)
    return sum(judged.found.values()), sum(judged.examined.values())


def _latencies(tables: Tables) -> Answer:
    return 0, sum(row["acknowledged"] for row in latencies(tables).collect())


def _java() -> int:
    """Return the process id of this process's JVM."""
    for each in Path("/proc").glob("[0-9]*"):
        try:
            name, fields = (each / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if name.endswith("(java") and int(fields.split()[1]) == os.getpid():
            return int(each.name)
    raise LookupError("this process has no JVM")
