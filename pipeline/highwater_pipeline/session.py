"""Sessions: local by default, on a cluster by its master's URL; and what is said without Java."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

JAVA_MIN = 17
LOCAL = "local[*]"
DRIVER_MEMORY = "2g"
_JAVA_WITHIN_S = 30
_VERSION = re.compile(r'version "(?P<major>\d+)')


class NoJava(Exception):
    """No Java that Spark can run on; the message says what to do."""


def check_java() -> None:
    """Ask the Java that Spark will start for its version.

    Raises:
        NoJava: there is none, it does not start, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home}, and {found} is not there" if home else "there is no java"
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or newer, and {where}: install a JRE (on Debian "
            f"`apt-get install openjdk-{JAVA_MIN}-jre-headless`) or set JAVA_HOME"
        )
    try:
        told = subprocess.run(  # noqa: S603 - java, to be asked its version
            [found, "-version"], capture_output=True, text=True, timeout=_JAVA_WITHIN_S, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise NoJava(f"{found} does not start: {error}") from error
    version = _VERSION.search(told)
    if version is None or int(version["major"]) < JAVA_MIN:
        first = told.partition("\n")[0]
        raise NoJava(f"Spark needs Java {JAVA_MIN} or newer; {found} is {first or 'silent'}")


_COMMON = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Else every call of a column's method looks up the line of Python that made it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
}
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_SMALL = {
    # Compiled once and quickly: such a session ends before better code would have paid. With one
    # level alone the JVM reserves room for a fifth of what Spark compiles, and then stops.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    ),
    # Nothing is to be learnt from a stage, and each look at one costs more than the stage.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""Of sessions over tables that read_tables keeps in memory, each in one partition."""


@contextmanager
def spark_session(
    master: str = LOCAL,
    *,
    partitions: int | None = None,
    memory: str = DRIVER_MEMORY,
    is_small: bool = False,
) -> Iterator[SparkSession]:
    """Give a session, and stop it at the end with all that it wrote beside the tables.

    master: local[N], or a cluster's spark://host:port. partitions: of a shuffle; None leaves it
    to two a core here (one when it is small) and to Spark's own choice on a cluster. is_small: it
    is to start and plan quickly, for tables of which read_tables is told the same.

    Raises:
        NoJava: Spark cannot start.
    """
    check_java()
    is_local = master.startswith("local")
    if is_local:
        # Else Spark's Python workers are whatever python3 is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if partitions is None and is_local:
        partitions = (1 if is_small else 2) * (os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="highwater-spark-") as scratch:
        settings = {
            **_COMMON,
            "spark.driver.memory": memory,
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            **(_LOCAL if is_local else {}),
            **(_SMALL if is_small else {}),
        }
        if partitions is not None:
            settings["spark.sql.shuffle.partitions"] = str(partitions)
        builder = SparkSession.builder.appName("highwater").master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
