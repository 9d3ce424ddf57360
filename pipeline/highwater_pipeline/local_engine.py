"""The engine for small runs: Sail, in this process.

It runs the pipeline's own code, which it gets by the protocol of Spark Connect, and needs no Java.
Spark takes ten seconds and more to start and to plan for tables of a hundred thousand rows; Sail
starts in a tenth of one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.sql import SparkSession

from highwater_pipeline.java import NoSpark

NEEDED = ("pysail", "grpc_status", "zstandard")
"""Packages that it needs besides those of Spark for Python."""
WITHIN_S = 300
"""How long an analysis of small runs may take: it takes seconds. Spark does it after that."""
_CONNECT = "SPARK_CONNECT_MODE_ENABLED"
_SETTINGS = {
    "RUST_LOG": "error",  # it warns of each hint that it does not need
    # With two threads a query, its joins of some queries wait for each other for ever (0.7.2).
    "SAIL_EXECUTION__DEFAULT_PARALLELISM": "1",
}


class NoLocalEngine(NoSpark):
    """The local engine does not start, or does not answer."""


class LocalEngine(NamedTuple):
    """A session, and the folder whose files it reads (read_tables)."""

    session: SparkSession
    scratch: Path


def lacks_local_engine() -> str | None:
    """Return why the local engine is not to be had here, None where it is."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if not missing:
        return None
    return f"the local engine needs {', '.join(missing)}: install highwater[pipeline-local]"


@contextmanager
def local_engine() -> Iterator[LocalEngine]:
    """Give the engine; at the end, stop it and remove its scratch files.

    While it runs this process makes no columns for a session of Spark: PySpark knows one mode at a
    time.

    Raises:
        NoLocalEngine: it cannot start.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        from pysail.spark import SparkConnectServer

        server = SparkConnectServer(ip="127.0.0.1", port=0)
        server.start(background=True)
    except (ImportError, OSError, RuntimeError) as error:
        raise NoLocalEngine(f"Sail does not start: {error}") from error
    had = os.environ.get(_CONNECT)
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        host, port = server.listening_address
        os.environ[_CONNECT] = "1"  # columns are made for this session from here on
        session = cast("SparkSession", ConnectSession(f"sc://{host}:{port}"))
        with tempfile.TemporaryDirectory(prefix="highwater-local-") as scratch:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            try:
                yield LocalEngine(session, Path(scratch))
            finally:
                session.stop()
    finally:
        if had is None:
            os.environ.pop(_CONNECT, None)
        server.stop()
