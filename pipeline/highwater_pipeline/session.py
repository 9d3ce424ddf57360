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


def java_command() -> Path:
    """Return the Java that Spark will start, after asking its version.

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
    return Path(found)


@contextmanager
def spark_session(
    master: str = LOCAL, *, partitions: int | None = None, memory: str = DRIVER_MEMORY
) -> Iterator[SparkSession]:
    """Give a session, and stop it at the end with all that it wrote beside the tables.

    master: local[N], or a cluster's spark://host:port. partitions: of a shuffle; None leaves it
    to two a core here and to Spark's own choice on a cluster.

    Raises:
        NoJava: Spark cannot start.
    """
    java_command()
    is_local = master.startswith("local")
    with tempfile.TemporaryDirectory(prefix="highwater-spark-") as scratch:
        builder = (
            SparkSession.builder.appName("highwater")
            .master(master)
            .config("spark.log.level", "ERROR")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", memory)
            .config("spark.local.dir", scratch)
            .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
            .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        )
        if is_local:
            # Else Spark's Python workers are whatever python3 is on the PATH.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            builder = builder.config("spark.driver.host", "127.0.0.1").config(
                "spark.driver.bindAddress", "127.0.0.1"
            )
        if partitions is None and is_local:
            partitions = 2 * (os.cpu_count() or 1)
        if partitions is not None:
            builder = builder.config("spark.sql.shuffle.partitions", str(partitions))
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
