"""The engine for small runs: Sail, in this process.

It runs the pipeline's own code, which it gets by the protocol of Spark Connect, and needs no Java.
Spark takes ten seconds and more to start and to plan for tables of a hundred thousand rows; Sail
starts in a tenth of one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from highwater_pipeline.java import NoSpark

NEEDED = ("pysail", "grpc_status", "zstandard")
"""Packages that it needs besides those of Spark for Python."""
WITHIN_S = 300
"""How long an analysis of small runs may take: it takes seconds. Spark does it after that."""
RETRIES = 3
"""Of a request to the server in this process, within a second or two; PySpark's default takes ten
minutes."""
_ENVIRONMENT = {
    "RUST_LOG": "error",  # it warns of each hint that it does not need
    # With two threads a query, its joins of some queries wait for each other for ever (0.7.2).
    "SAIL_EXECUTION__DEFAULT_PARALLELISM": "1",
    "SPARK_CONNECT_MODE_ENABLED": "1",  # PySpark makes its columns for Connect
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
    return f"the local engine needs {', '.join(missing)}: install the wheel's extra pipeline-local"


@contextmanager
def local_engine() -> Iterator[LocalEngine]:
    """Give the engine; at the end, stop it and remove its scratch files.

    While it runs this process makes no columns for a session of Spark: PySpark knows one mode at a
    time.

    Raises:
        NoLocalEngine: it cannot start.
    """
    with _environment(), ExitStack() as stack:
        try:
            scratch = tempfile.TemporaryDirectory(prefix="highwater-local-")
            stack.enter_context(scratch)
            session = _session(stack)
        except (ImportError, OSError, RuntimeError, PySparkException) as error:
            raise NoLocalEngine(f"Sail does not start: {error}") from error
        yield LocalEngine(session, Path(scratch.name))


@contextmanager
def _environment() -> Iterator[None]:
    """Set what Sail and PySpark read from the environment, and undo it at the end."""
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _session(stack: ExitStack) -> SparkSession:
    """Start the server and return a session of it; the stack stops both."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    stack.callback(server.stop)
    host, port = server.listening_address
    # gRPC would ask a proxy of the environment for this machine's own address.
    channel = DefaultChannelBuilder(f"sc://{host}:{port}", [("grpc.enable_http_proxy", 0)])
    session = ConnectSession(channel)
    stack.callback(session.stop)
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return cast("SparkSession", session)
