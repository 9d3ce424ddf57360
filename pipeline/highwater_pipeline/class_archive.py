"""Records an archive of the classes that Spark loads, which its JVM maps instead of reading jars.

`python -m highwater_pipeline.class_archive` records it, once for an environment and its Java, as
the last step of setting up. Sessions without an archive start some seconds slower.
Source: java(1) of JDK 17, -XX:ArchiveClassesAtExit and -XX:SharedArchiveFile.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from highwater_pipeline.analysis import analyse
from highwater_pipeline.ingest.store import write
from highwater_pipeline.java import NoJava, archive_path, check_java
from highwater_pipeline.reading import read_tables
from highwater_pipeline.session import spark_session
from highwater_pipeline.tables import RUNS

_LOAD = "--load"
_RECORD_WITHIN_S = 600


def record(archive: Path) -> None:
    """Analyse a store without rows in a process of its own, and archive the classes it loaded.

    Raises:
        subprocess.SubprocessError: the process failed, or took more than ten minutes.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spark-classes-", dir=archive.parent) as scratch:
        recorded = Path(scratch, archive.name)
        # The JVM would log each of hundreds of classes that cannot be archived.
        options = f"-XX:ArchiveClassesAtExit={recorded} -Xlog:disable"
        subprocess.run(  # noqa: S603 - this program
            [sys.executable, "-m", __spec__.name, _LOAD, scratch],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options},
            capture_output=True,  # so that the end of the JVM is awaited, which writes last
            timeout=_RECORD_WITHIN_S,
            check=True,
        )
        recorded.replace(archive)


def _load(scratch: Path) -> None:
    """Run an analysis without rows: it loads the same classes as any other."""
    store = scratch / "store"
    with spark_session(is_small=True) as spark:
        row = tuple("classes" if name == "run_id" else None for name in RUNS.columns)
        write(spark.createDataFrame([row], RUNS.schema), RUNS, store)
        analyse(read_tables(spark, store, are_small=True))


def main() -> None:
    if sys.argv[1:2] == [_LOAD]:
        _load(Path(sys.argv[2]))
        return
    try:
        archive = archive_path(check_java())
    except NoJava as error:
        sys.stderr.write(f"Spark's classes are not recorded: {error}\n")
        return
    if not archive.exists():
        record(archive)
    sys.stderr.write(f"Spark's classes are recorded: {archive}\n")


if __name__ == "__main__":
    main()
