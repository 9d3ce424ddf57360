"""Spark sessions: local by default, on a cluster by its master's URL; errors without Java."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from highwater_pipeline.campaign.shipping import is_here, ship
from highwater_pipeline.java import NoSpark, archive_options, check_java

LOCAL = "local[*]"
DRIVER_MEMORY = "2g"
SHIPPED = ("highwater_core", "highwater_chaos", "highwater_checker", "highwater_pipeline")
"""The packages that the pipeline's Python functions need in the workers of a cluster."""
_MASTER_WITHIN_S = 10
_SPARK = "spark://"
_PYTHON = "PYSPARK_PYTHON"


class NoMaster(NoSpark):
    """None of a cluster's masters answers."""


_COMMON = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Else every call of a column's method looks up the line of Python that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # One analysis has more than the default, 100: repeated queries were compiled again.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_QUICK_JAVA = (
    # Compiled once and quickly: a small session ends before better code would have paid. With one
    # level alone the JVM reserves room for a fifth of what Spark compiles, and then stops.
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseSerialGC",
    # Each step by which room for classes or objects grows begins with a collection of all.
    "-XX:MetaspaceSize=512m",
    "-Xmn500m",
)
_SMALL = {
    "spark.executor.extraJavaOptions": " ".join(_QUICK_JAVA),
    # Nothing is to be learnt from a stage, and each look at one costs more than the stage.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Each sort and each table of keys takes a page at least; a page is 64 MB by default.
    "spark.buffer.pageSize": "1m",
}
"""Of sessions over tables that read_tables keeps in memory, each in one partition."""
_STACK = "-Xss8m"
"""Spark searches an error's text by a pattern that takes half a kilobyte of stack a character: an
error of a streaming query's Python would overflow the default."""
_LOGGING = Path(__file__).with_name("log4j2.properties")


def _way_back(master: str) -> dict[str, str]:
    """Return the settings with this process's address for a cluster's workers.

    It is the address from which this process reaches the master.

    Raises:
        NoMaster: none of a standalone cluster's masters answers.
    """
    if not master.startswith(_SPARK):
        return {}
    for place in master.removeprefix(_SPARK).split(","):
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _MASTER_WITHIN_S) as connection:
                address = connection.getsockname()[0]
        except (OSError, ValueError) as error:
            why = error
        else:
            return {"spark.driver.host": address, "spark.driver.bindAddress": address}
    raise NoMaster(f"no Spark master answers at {master}: {why}") from why


@contextmanager
def _this_python() -> Iterator[None]:
    """Make sessions that begin meanwhile start this Python for their workers.

    Otherwise they start the first python3 of the PATH. Sessions that begin later are not affected:
    a cluster has its own Python.
    """
    if _PYTHON in os.environ:
        yield
        return
    os.environ[_PYTHON] = sys.executable
    try:
        yield
    finally:
        del os.environ[_PYTHON]


@contextmanager
def spark_session(
    master: str = LOCAL,
    *,
    partitions: int | None = None,
    memory: str = DRIVER_MEMORY,
    is_small: bool = False,
) -> Iterator[SparkSession]:
    """Give a session; at the end, stop it and remove its scratch files.

    master: local[N], or a cluster's spark://host:port.
    partitions: of a shuffle. None: one a core in a small local session, two a core in another local
        session, Spark's own choice on a cluster.
    is_small: start and plan quickly, for small tables; read_tables must get the same value.

    Workers of a cluster get the pipeline's code from this process.

    Raises:
        NoSpark: Spark cannot start.
    """
    java = check_java()
    is_local = master.startswith("local")
    if partitions is None and (is_local or is_small):
        partitions = (1 if is_small else 2) * (os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="highwater-spark-") as scratch:
        settings = {
            **_COMMON,
            "spark.driver.memory": memory,
            "spark.driver.extraJavaOptions": shlex.join(
                [
                    f"-Dlog4j2.configurationFile={_LOGGING}",
                    _STACK,
                    *archive_options(java),
                    *(_QUICK_JAVA if is_small else ()),
                ]
            ),
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            **(_LOCAL if is_local else _way_back(master)),
            **(_SMALL if is_small else {}),
        }
        if partitions is not None:
            settings["spark.sql.shuffle.partitions"] = str(partitions)
        builder = SparkSession.builder.appName("highwater").master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        with _this_python() if is_local else nullcontext():
            spark = builder.getOrCreate()
        try:
            if not is_here(master):
                ship(spark, SHIPPED, Path(scratch))
            yield spark
        finally:
            spark.stop()
