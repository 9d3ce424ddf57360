"""One Spark session for all tests of a worker: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from highwater_pipeline.session import spark_session

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""To compile a query costs more than to interpret it over the few rows that a test has."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("local[2]", partitions=2, memory="1g", is_small=True) as session:
        for name, value in INTERPRETED.items():
            session.conf.set(name, value)
        yield session


@pytest.fixture(scope="session")
def scratch() -> Path | None:
    """Give what read_tables gets: Spark needs none (tests.pipeline.on_the_local_engine)."""
    return None


ITEM_WITHIN_S = 3_600
"""Spark compiles hundreds of small stages: minutes of a core. Where other tests and another process
have the cores as well, one analysis of all runs has taken more than a quarter of an hour."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(ITEM_WITHIN_S))
